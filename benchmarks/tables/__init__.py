"""Runs the published experiments again, and makes the report: `python -m benchmarks.tables`."""
