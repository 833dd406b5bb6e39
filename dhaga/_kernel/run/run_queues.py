"""Priorities: which queue a waiter is in while it is runnable.

A wake appends to ``waiter.wake_queue``, so that priorities cost nothing in programs without them.
NORMAL waiters are in the run queue itself. HIGH waiters are in a ``HighQueue`` beside the run queue. For each of them,
the run queue has an entry at its head: the HighQueue itself. LOW waiters are in a ``LowQueue``, which is read when the
run queue is empty; a ``NewWorkQueue`` is read just before it. ``Scheduler._prevent_starvation`` breaks this order once
in two full laps, and starts new work that did not begin for one lap.
Rejected: three queues scanned at each switch, because every program without priorities would pay for the scan.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from .preemption import quantum_of

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Priority(enum.IntEnum):
    """Which runnable dhaga runs first: ``HIGH``, ``NORMAL`` and ``LOW`` of the package."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


HIGH, NORMAL, LOW = Priority

NEW_WORK_AT_ONCE = 4
"""Units of new work that begin after a lap in which none could: 400 a second at turns of 10 ms.

With 16 too much was in progress at once: p99 of 1,000 clients 328 ms instead of 287, and 122 MB instead of 116.
"""


class HighQueue:
    """FIFO of HIGH waiters. The run queue holds it once for each of them; switching to it runs the first."""

    __slots__ = ("scheduler", "waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.waiters: deque[Any] = deque()

    def append(self, waiter: Any) -> None:
        """Make a waiter the next to run, behind the other HIGH ones. One that yields goes once around the run queue."""
        if waiter is getcurrent():
            # sleep(0) of a HIGH dhaga: at the head it would run again at once, before any other dhaga.
            self.scheduler.run_queue.append(waiter)
        else:
            self.waiters.append(waiter)
            self.scheduler.run_queue.appendleft(self)

    def switch(self) -> None:
        self.scheduler._switch_to(self.waiters.popleft())

    def promote_one_other(self) -> None:
        """Move the first entry that is not HIGH before all that are, so that it also runs now and then."""
        ready, high_count = self.scheduler.run_queue, len(self.waiters)
        if 0 < high_count < len(ready):
            ready.rotate(-high_count)
            # The base class's method: the run queue of a test may be a ShuffledQueue, which pops at random.
            promoted = deque.popleft(ready)
            ready.rotate(high_count)
            ready.appendleft(promoted)


class LowQueue(deque[Any]):
    """FIFO of LOW waiters. One that yields ends the stretch, so that ``_pick_next`` runs even if no other is left."""

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        # A dhaga that yields takes the next entry of the run queue unseen, because it has put itself there: but this
        # one has not. At the end of a stretch it goes through _pick_next, which also reads this queue.
        if waiter is getcurrent():
            self.scheduler._end_stretch()


class NewWorkQueue(LowQueue):
    """FIFO of dhagas about to begin new work, such as the next request: all work in progress goes first.

    So a busy server finishes requests before it begins others, holds few connections of its pools, and answers in order
    of arrival. Measured with Flask, SQLAlchemy and redis-py under 300 clients: 3,660 answers per second of CPU time,
    and the slowest first answer after 119 ms; without this queue 2,820 answers and 360 ms. Under 1,000 clients: 3,800
    answers and 360 ms; without it 2,740 answers and 1,084 ms.
    """

    __slots__ = ("head",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.head = 0  # the id of the first dhaga at the last check: a reference would keep it alive

    def promote_starved(self) -> None:
        """Move some into the run queue if none has begun since the last full lap, because the work in progress may
        never pause.

        From: the scheduler, at the end of a full lap, while there is new work.
        """
        former, self.head = self.head, id(self[0])
        if self.head == former:
            for _ in range(min(len(self), NEW_WORK_AT_ONCE)):
                self.scheduler.run_queue.append(self.popleft())


class PreemptedQueue(LowQueue):
    """FIFO of NORMAL waiters whose turn was ended: they go on when no other NORMAL waiter can run, or by
    ``promote_starved``.

    So a dhaga that computes little between its waits passes all dhagas that compute much, and waits for the end of one
    turn at most. Dhagas that compute much still get half of the time.
    """

    __slots__ = ("last_turn_ended_at",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.last_turn_ended_at = 0.0

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self.last_turn_ended_at = self.scheduler.clock()

    def promote_starved(self) -> None:
        """Put the first one next in the run queue, if the others have run for as long as a turn may last.

        From: the scheduler, at the start of a lap, while there are preempted ones.
        """
        quantum = quantum_of(self.scheduler) or 0
        if self.scheduler.clock() - self.last_turn_ended_at >= 2 * quantum:
            self.scheduler.run_queue.appendleft(self.popleft())
