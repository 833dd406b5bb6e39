"""Priorities: which queue a waiter stands in while it is runnable.

A wake appends to ``waiter._queue``, whichever that is, so that priorities cost nothing where none is set.
NORMAL waiters stand in the run queue itself. HIGH ones stand in a ``HighQueue`` beside it, and for each of them the run
queue holds one entry of that HighQueue, at its head. LOW ones stand in a ``LowQueue``, which is read when the run queue
is empty. ``Scheduler._prevent_starvation`` breaks the order once in two full laps.
Rejected: three queues scanned at each switch, as every program without priorities would pay for the scan.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Priority(enum.IntEnum):
    """Which runnable dhaga runs first: ``HIGH``, ``NORMAL`` and ``LOW`` of the package."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


HIGH, NORMAL, LOW = Priority


class HighQueue:
    """FIFO of HIGH waiters. The run queue holds it once for each of them; switching to it runs the first."""

    __slots__ = ("scheduler", "waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.waiters: deque[Any] = deque()

    def append(self, waiter: Any) -> None:
        """Make a waiter the next to run, behind the other HIGH ones. One that yields goes once around the run queue."""
        if waiter is getcurrent():
            # sleep(0) of a HIGH dhaga: at the head it would be switched to at once, and the yield would yield to no
            # other dhaga.
            self.scheduler._run_queue.append(waiter)
        else:
            self.waiters.append(waiter)
            self.scheduler._run_queue.appendleft(self)

    def switch(self) -> None:
        self.scheduler._switch_to(self.waiters.popleft())

    def promote_one_other(self) -> None:
        """Move the first entry that is not HIGH before all that are, so that it runs now and then, too."""
        ready, high_count = self.scheduler._run_queue, len(self.waiters)
        if 0 < high_count < len(ready):
            ready.rotate(-high_count)
            # The base class's method: the run queue of a test may be a ShuffledQueue, which pops at random.
            promoted = deque.popleft(ready)
            ready.rotate(high_count)
            ready.appendleft(promoted)


class LowQueue(deque[Any]):
    """FIFO of LOW waiters. One that yields may be alone: an append ends the stretch, and ``_pick_next`` looks on."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        # The next switch counts down to 0 and goes through _pick_next, which reads this queue.
        self.scheduler._switches_left = 1
