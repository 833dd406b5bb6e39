"""Durable writes beside other work: the ways to make them, the work, and how long callers wait. See file_io.py."""
