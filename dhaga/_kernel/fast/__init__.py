"""The compiled code, and how it replaces Python functions."""
