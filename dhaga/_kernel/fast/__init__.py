"""The compiled code, and the functions that put it in place of Python functions."""
