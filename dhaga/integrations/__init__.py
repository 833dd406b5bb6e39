"""Dhagas in the frameworks of others: one module a framework, imported by nobody but its users."""
