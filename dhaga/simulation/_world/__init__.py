"""``Simulation``: one run of a seed, and the report of the run's failure."""
