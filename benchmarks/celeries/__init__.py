"""The parts of `benchmarks.celery_pool`: a broker, an app with its tasks, and a worker of each pool."""
