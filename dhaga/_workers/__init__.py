"""Pools: blocking calls in OS threads, and submitted calls in worker dhagas."""
