"""``Simulation``: one run of a seed, and the report of its failure."""
