"""Timers: a heap with the deadlines of one scheduler, and a single timeout of the event loop for the earliest deadline.

An entry is armed, discarded or fired. Only an armed entry contains the object that expires (``entry[2]``). Discarding
an entry empties it and leaves it in the heap: this costs O(1), while removing it from the heap would cost O(n).
Discarded entries that reach the top of the heap are skipped. Once discarded entries are more than half of the heap, a
rebuild removes them.
The entries of HIGH waiters are also in another heap, which is fired first, so that HIGH waiters need not wait for
thousands of earlier deadlines.
``Timers`` has neither a clock nor a loop: the scheduler passes the time to ``fire`` at the start of each lap. At the
end of a lap, ``LoopTimer`` arms ``loop.call_later`` for the earliest deadline only.
Rejected: a ``TimerHandle`` of the loop for each sleep, because 100,000 handles cost more than our heap. Also rejected:
``IOLoop.time()`` as the clock, because it is the wall clock, and ``call_later`` reads it twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import compress, repeat
from operator import is_not, itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from ..fast.compiled import compiled
from .run_queues import HIGH

if TYPE_CHECKING:
    from .scheduler import Scheduler

# Up to this number, discarded entries cause no rebuild. Above this number, at most half of the heap stays discarded, so
# that a rebuild costs O(1) per discarded entry.
COMPACT_ABOVE = 64
# The number of timers that fire before dhagas run again. A batch takes about 0.5 ms. Without batches, 100,000 timers
# that were due at once took 1 s.
BATCH = 256


class Expiring(Protocol):
    """An object with a deadline: a waiter, a Timeout block, a scope."""

    def _expire(self) -> None: ...


# [deadline, sequence, expiring], where ``expiring`` is None in a fired or discarded entry. Entries are lists, because
# heapq compares lists in C (by deadline and then by sequence), and a list can be emptied in place.
Entry = list[Any]


class Timers:
    """The deadlines of a scheduler. A discarded entry stays in the heap until it reaches the top or the heap is
    rebuilt, whichever comes first.
    """

    __slots__ = ("discarded", "fired", "heap", "sequence", "urgent")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        # The entries of HIGH waiters. They are also in ``heap``, and stay there as empty entries after they have fired.
        self.urgent: list[Entry] = []
        # The sequence numbers of entries, and also of Timeout and scope blocks: see cancellation.py.
        self.sequence: Callable[[], int] = itertools.count().__next__
        self.discarded: int = 0
        # The number of timers fired so far, for statistics.
        self.fired: int = 0

    def __len__(self) -> int:
        return len(self.heap) - self.discarded

    def __repr__(self) -> str:
        return f"<Timers {len(self)} armed, {self.discarded} discarded>"

    @compiled  # in C only for a dhaga of priority NORMAL, or an object that is not a dhaga
    def add(self, deadline: float, expiring: Expiring) -> Entry:
        """Schedule ``expiring._expire()`` at ``deadline`` (seconds of the scheduler's clock). Returns: the entry."""
        entry: Entry = [deadline, self.sequence(), expiring]
        heappush(self.heap, entry)
        if getattr(expiring, "own_priority", None) is HIGH:
            heappush(self.urgent, entry)
        return entry

    @compiled  # in C only for a heap that need not be rebuilt
    def discard(self, entry: Entry) -> None:
        """Discard an entry. No-op if the entry has already fired or been discarded."""
        if entry[2] is None:
            return
        entry[2] = None
        self.discarded += 1
        if self.discarded > COMPACT_ABOVE and self.discarded * 2 > len(self.heap):
            # Only C functions run until the heap is replaced. During a loop, a finalizer could run and sleep, and the
            # loop would lose its entry.
            self.heap[:] = armed(self.heap)
            self.discarded = 0
            heapify(self.heap)
            self.urgent[:] = armed(self.urgent)
            heapify(self.urgent)

    @compiled  # in C only without urgent entries
    def fire(self, now: float) -> bool:
        """Expire one batch of the entries due at ``now``, ordered by deadline and then by time of addition.

        Returns: whether the batch was full. After a full batch, more entries may be due: the loop's timer starts the
        next lap for them.
        """
        if self.urgent:
            self.fire_urgent(now)
        heap = self.heap
        # Discarded entries also count for the batch, because half of the heap may be due and discarded.
        for _ in range(BATCH):
            if not heap or heap[0][0] > now:
                return False
            entry = heappop(heap)
            expiring, entry[2] = entry[2], None
            if expiring is None:
                self.discarded -= 1
            else:
                self.fired += 1
                expiring._expire()
        return True

    def fire_urgent(self, now: float) -> None:
        """Expire one batch of the HIGH waiters' entries that are due at ``now``."""
        for _ in range(BATCH):
            if not self.urgent or self.urgent[0][0] > now:
                return
            entry = heappop(self.urgent)
            expiring, entry[2] = entry[2], None
            if expiring is not None:
                self.discarded += 1
                self.fired += 1
                expiring._expire()

    def due(self, now: float) -> bool:
        """Return whether an entry may be due. A discarded first entry also counts, which may end a lap too early."""
        return bool(self.heap) and self.heap[0][0] <= now

    def next_deadline(self) -> float | None:
        """Return the earliest armed deadline; None if there is none.

        If many discarded entries precede this deadline, return the deadline of such an entry: the next lap then begins
        too early.
        """
        heap = self.heap
        for _ in range(BATCH):
            if not heap or heap[0][2] is not None:
                break
            heappop(heap)
            self.discarded -= 1
        urgent = self.urgent
        while urgent and urgent[0][2] is None:
            heappop(urgent)
        return heap[0][0] if heap else None


def armed(entries: list[Entry]) -> Iterator[Entry]:
    """Return an iterator over the armed entries. The iterator calls only C functions."""
    return compress(entries, map(is_not, map(itemgetter(2), entries), repeat(None)))


class LoopTimer:
    """The timeout of the event loop that starts a lap at the scheduler's earliest deadline."""

    __slots__ = ("deadline", "handle", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.handle: asyncio.TimerHandle | None = None
        self.deadline = 0.0

    def arm(self) -> None:
        """Arm the timeout for the earliest deadline. A timeout that is already armed for an earlier time is kept."""
        deadline = self.scheduler.timers.next_deadline()
        if self.handle is not None:
            # A timeout that is armed too early is kept: a lap without work costs less than a cancel and a new handle
            # whenever the first timer is discarded.
            if deadline is not None and self.deadline <= deadline and not self.handle.cancelled():
                return
            self.cancel()
        if deadline is not None:
            self.deadline = deadline
            self.handle = self.scheduler.loop.call_later(max(0.0, deadline - self.scheduler.clock()), self.on_timeout)

    def cancel(self) -> None:
        """Disarm the timeout."""
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def on_timeout(self) -> None:
        """Run a lap. From: the loop."""
        self.handle = None
        self.scheduler._lap()
