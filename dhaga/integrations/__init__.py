"""Dhaga for other packages: one module per package, imported only by its users."""
