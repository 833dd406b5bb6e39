"""Web servers beside others: `python -m benchmarks.web`."""
