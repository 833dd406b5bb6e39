"""The calls that a program made, and whether an order explains them."""
