"""Dhaga's microthreads and other frameworks at the same work: `python -m benchmarks.kernel`."""
