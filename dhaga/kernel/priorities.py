"""Priorities: which queue a waiter stands in while it is runnable.

NORMAL ones stand in the run queue itself, so that priorities cost nothing where nobody uses them: a wake appends to
``waiter.queue``, whichever that is. HIGH ones stand in a queue beside it, and for each of them this queue, an
``Urgent``, stands at the head of the run queue. LOW ones stand in a reserve, for when the run queue is empty.
"""

from __future__ import annotations

import enum


class Priority(enum.IntEnum):
    """Who runs first of those that are runnable; ``HIGH``, ``NORMAL`` and ``LOW`` of the package."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


HIGH, NORMAL, LOW = Priority
