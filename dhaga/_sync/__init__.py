"""Primitives that synchronize dhagas and OS threads: locks, conditions, semaphores, events, barriers, locals."""
