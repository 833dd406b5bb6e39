"""A web server that calls a backend for each page: ``python -m benchmarks.pipeline``."""
