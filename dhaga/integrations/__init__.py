"""Dhagas in other frameworks: one module per framework, imported only by its users."""
