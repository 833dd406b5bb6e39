"""Rate and latency of four kinds of proxy while upstreams are slow or hang: ``python -m benchmarks.rate_model``."""
