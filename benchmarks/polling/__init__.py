"""Counting under concurrency: rates read by polling, ways to count, one output: ``python -m benchmarks.polling``."""
