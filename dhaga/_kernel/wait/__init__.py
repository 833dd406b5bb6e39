"""Waiting: the waiters, the queue in which they wait, cancellation, and deadlock detection."""
