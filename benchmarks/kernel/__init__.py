"""Microthreads beside others at the same work: `python -m benchmarks.kernel`."""
