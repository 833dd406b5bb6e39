"""Celery's pools beside each other, on one broker: ``python -m benchmarks.celery_pool``."""
