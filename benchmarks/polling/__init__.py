"""Counting under concurrency: polled rates, ways to count, and a shared output: ``python -m benchmarks.polling``."""
