"""The parts of `benchmarks.rate_model`: arrivals that wait for nobody, four kinds of proxy, and what is recorded."""
