"""The experiments that the idea was argued with, repeated: `python -m benchmarks.tables`."""
