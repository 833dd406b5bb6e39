"""A backup of many small files over a long line, by threads and by dhagas: ``python -m benchmarks.backup``."""
