"""Priorities and run queues: the queues in which runnable waiters of each priority wait for their turn.

A wake appends the waiter to its ``wake_queue`` without reading its priority. So priorities cost nothing in programs
that do not use them. NORMAL waiters are in the run queue itself. HIGH waiters are in a ``HighQueue``. The run
queue begins with one entry for each HIGH waiter, and each of these entries is the HighQueue itself. Other queues are
read only when the run queue is empty, in this order: the ``NewWorkQueue``, the ``PreemptedQueue``, and the ``LowQueue``
of LOW waiters. To prevent starvation, ``Scheduler._prevent_starvation`` breaks the order of priorities once in two full
laps. The NewWorkQueue and the PreemptedQueue have a method ``promote_starved``, which moves their waiters to the run
queue.
Rejected: scanning three queues at each switch, because programs without priorities would also pay for the scan.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from .preemption import quantum_of

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Priority(enum.IntEnum):
    """The priority of a dhaga: ``dhaga.HIGH``, ``dhaga.NORMAL`` or ``dhaga.LOW``. Higher priorities run first."""

    HIGH = 0
    NORMAL = 1
    LOW = 2


HIGH, NORMAL, LOW = Priority

NEW_WORK_AT_ONCE = 4
"""The number of units of new work, such as requests, that begin once none has begun for ``NEW_WORK_SECONDS``.

While work in progress stays runnable, at most 400 units a second begin in this way: four in each 10 ms. More units
would put too much work in progress at once. Under 1,000 clients, 16 units instead of 4 raised the p99 latency from 287
ms to 328 ms, and the memory from 116 MB to 122 MB.
"""

NEW_WORK_SECONDS = 0.01
"""The time after which new work begins although work in progress is runnable.

Before this limit existed, four units began after every two full laps: 2,000 units a second, more than a service
finishes. Under 1,000 clients, 960 requests of Flask then waited for a connection of SQLAlchemy's pool. With the limit,
no request waits for a connection.
"""

NEW_WORK_LAPS = 10
"""The number of full laps after which new work begins even if the clock stands still, as it does in tests. With a
moving clock, these laps take ``NEW_WORK_SECONDS`` or longer.
"""


EXCHANGE_SECONDS = 0.1
"""The time after the scheduler's last idle moment during which the end of a unit of work lets a unit of new work begin.

Without exchanges, requests that wait equally long fall into step: all of them end before any other begins, and then the
scheduler is idle until the first wait is over. Exchanges raised the number of requests per second from 3,440 to 4,400
under 100 clients with waits of 20 ms. Under 1,000 clients with waits of 200 ms, the number rose from 3,270 to 4,440.

If a scheduler is always busy, exchanges keep more work in progress than it needs. In a measurement, PostgreSQL did not
answer for 1.5 s. After this pause, Flask gave 1,000 clients 2,470 answers per second, but only 2,110 in a version that
made exchanges at any time.
"""


class HighQueue:
    """FIFO of HIGH waiters. The run queue contains the HighQueue once for each HIGH waiter. A switch to such an entry
    runs the first waiter of the FIFO.
    """

    __slots__ = ("scheduler", "waiters")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.waiters: deque[Any] = deque()

    def append(self, waiter: Any) -> None:
        """Append a waiter, which runs before all waiters that are not HIGH. If the waiter yields, append it to the run
        queue instead.
        """
        me = getcurrent()
        if waiter is me or (not isinstance(waiter, greenlet) and getattr(waiter, "own_greenlet", None) is me):
            # A HIGH dhaga or main code calls sleep(0): at the head it would run again at once, before any other dhaga.
            self.scheduler.run_queue.append(waiter)
        else:
            self.waiters.append(waiter)
            self.scheduler.run_queue.appendleft(self)

    def switch(self) -> None:
        self.scheduler._switch_to(self.waiters.popleft())

    def promote_one_other(self) -> None:
        """Move the first entry that is not HIGH to the head of the run queue, so that such entries do not starve."""
        ready, high_count = self.scheduler.run_queue, len(self.waiters)
        if 0 < high_count < len(ready):
            ready.rotate(-high_count)
            # deque's own popleft() is called, because a test's run queue may be a ShuffledQueue, which pops at random.
            promoted = deque.popleft(ready)
            ready.rotate(high_count)
            ready.appendleft(promoted)


class LowQueue(deque[Any]):
    """FIFO of LOW waiters. A waiter that yields ends the stretch of the lap (see ``lap.py``), so that ``_pick_next``
    chooses the next entry.
    """

    __slots__ = ("scheduler",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        # sleep(0) pops from the run queue without a check, because a NORMAL caller has just appended itself there. A
        # LOW caller is not in the run queue, which may be empty. So the stretch ends here: then sleep(0) calls
        # _pick_next, which reads all queues.
        if waiter is getcurrent():
            self.scheduler._end_stretch()


class NewWorkQueue(LowQueue):
    """FIFO of dhagas that are about to begin new work, such as the next request. All work in progress runs first,
    except for dhagas in the ``PreemptedQueue`` or the ``LowQueue``.

    So a busy server finishes requests before it begins others, holds few connections of its pools, and answers in order
    of arrival. Measured with Flask, SQLAlchemy and redis-py: under 300 clients, the number of answers per second of CPU
    time rose from 2,820 to 3,660. The time of the slowest first answer fell from 360 ms to 119 ms. Under 1,000 clients,
    the number rose from 2,740 to 3,800, and the time fell from 1,084 ms to 360 ms.

    New work also begins in two other cases: if none has begun for some time (``promote_starved``), and in exchange for
    work that ends, if the scheduler was idle recently (``begin_in_exchange``).
    """

    __slots__ = ("full_laps", "head", "head_since")

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        # The id of the first dhaga at the last check, because a reference would keep the dhaga alive.
        self.head = 0
        # The time of the first check that found this dhaga at the head, and the number of full laps since then.
        self.head_since = 0.0
        self.full_laps = 0

    def promote_starved(self) -> None:
        """Move some dhagas to the run queue if no new work has begun for ``NEW_WORK_SECONDS``.

        Without this method new work might never begin, because the work in progress may never pause.
        From: the scheduler, at the end of a full lap, while there is new work.
        """
        now, head = self.scheduler.clock(), id(self[0])
        if head != self.head:
            self.head, self.head_since, self.full_laps = head, now, 0
            return
        self.full_laps += 1
        if now - self.head_since >= NEW_WORK_SECONDS or self.full_laps >= NEW_WORK_LAPS:
            self.head = 0
            for _ in range(min(len(self), NEW_WORK_AT_ONCE)):
                self.scheduler.run_queue.append(self.popleft())

    def begin_in_exchange(self) -> None:
        """Move the first dhaga to the run queue because a unit of work has ended, if the scheduler was idle recently.

        From: a dhaga of the scheduler, while there is new work.
        """
        scheduler = self.scheduler
        if scheduler._lap_began - scheduler._busy_since < EXCHANGE_SECONDS:
            scheduler.run_queue.append(self.popleft())


class PreemptedQueue(LowQueue):
    """FIFO of NORMAL waiters whose turns were ended by preemption. They run when no other NORMAL waiter is runnable.

    So a dhaga that computes little between its waits overtakes all dhagas that compute much: it waits at most for the
    end of a single turn. When preemption has ended no turn for two quanta, ``promote_starved`` gives the first waiter a
    turn.
    """

    __slots__ = ("last_turn_ended_at",)

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.last_turn_ended_at = 0.0

    def append(self, waiter: Any) -> None:
        super().append(waiter)
        self.last_turn_ended_at = self.scheduler.clock()

    def promote_starved(self) -> None:
        """Move the first waiter to the head of the run queue, if two quanta have passed since preemption last ended a
        turn.

        From: the scheduler, at the start of a lap, while this queue is not empty.
        """
        quantum = quantum_of(self.scheduler) or 0
        if self.scheduler.clock() - self.last_turn_ended_at >= 2 * quantum:
            self.scheduler.run_queue.appendleft(self.popleft())
