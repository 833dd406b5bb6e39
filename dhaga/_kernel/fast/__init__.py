"""What is compiled, and how it takes the place of Python functions."""
