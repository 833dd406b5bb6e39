"""A fleet backup: many sources, each saved by a Celery task, thousands of them in flight on a few worker processes."""
