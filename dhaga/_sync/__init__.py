"""Primitives by which dhagas and OS threads synchronise: locks, conditions, semaphores, events, barriers, locals."""
