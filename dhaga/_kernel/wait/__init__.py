"""What waits: waiters, their queue, cancellation, and deadlocks."""
