"""Records of the calls of a program, and the search for an order that explains their results."""
