"""Priorities: which queue a waiter stands in while it is runnable.

NORMAL ones stand in the run queue itself, so that priorities cost nothing where nobody uses them: a wake appends to
``waiter.queue``, whichever that is. HIGH ones stand in a queue beside it, and for each of them this queue, an
``Urgent``, stands at the head of the run queue. LOW ones stand in a reserve, for when the run queue is empty.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Priority(enum.IntEnum):
    """Who runs first of those that are runnable; ``HIGH``, ``NORMAL`` and ``LOW`` of the package."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


HIGH, NORMAL, LOW = Priority


class Urgent:
    """The queue of HIGH waiters. In the run queue it stands for the first of them, once for each."""

    __slots__ = ("scheduler", "waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.waiters: deque[Any] = deque()

    def append(self, waiter: Any) -> None:
        """Make a waiter the next to run, after those of the same kind; one that yields goes once around with all."""
        if waiter is getcurrent():
            self.scheduler.ready.append(waiter)
        else:
            self.waiters.append(waiter)
            self.scheduler.ready.appendleft(self)

    def switch(self) -> None:
        self.scheduler.give_turn(self.waiters.popleft())

    def let_one_pass(self) -> None:
        """Put the first that is not HIGH before all that are, so that it has a turn now and then, too."""
        ready, mine = self.scheduler.ready, len(self.waiters)
        if 0 < mine < len(ready):
            ready.rotate(-mine)
            passes = deque.popleft(ready)  # in order even if the run queue of a test gives at random
            ready.rotate(mine)
            ready.appendleft(passes)


class Reserve(deque[Any]):
    """The queue of LOW waiters. One that yields may be alone: so the stretch ends, and ``elect`` looks for others."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self.scheduler.left = 1
