"""Dhaga's web servers and others at the same work: `python -m benchmarks.web`."""
