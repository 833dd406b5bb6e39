"""``examples/load`` beside Locust, each in a process of its own: ``python -m benchmarks.load_testers``."""
