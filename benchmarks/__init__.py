"""Measure Dhaga against its rivals: `python -m benchmarks.kernel`."""
