"""A write-ahead log beside busy dhagas: ``python -m benchmarks.file_io``."""
