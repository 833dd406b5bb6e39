"""Helpers for modules with the API of another package: checks of arguments, hints for missing names and packages."""
