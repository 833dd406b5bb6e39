"""Waiting: waiters, their queue, cancellation, and deadlocks."""
