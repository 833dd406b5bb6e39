"""Primitives to synchronise dhagas and OS threads: locks, conditions, semaphores, events, barriers, locals."""
