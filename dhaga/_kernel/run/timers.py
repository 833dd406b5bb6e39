"""Deadlines of one scheduler in one heap, and a single timeout of the host loop for the earliest of them.

An entry is armed, discarded or fired; only an armed one names what expires (``entry[2]``). Discarding empties the entry
and leaves it in the heap: a timeout that is not needed costs O(1), where removal from a heap costs O(n). A rebuild
drops the discarded ones once they are more than half; until then they surface and are skipped.
HIGH waiters are also in a heap of their own, which is fired first: thousands of other deadlines may be due before one.
``Timers`` has neither clock nor loop: the scheduler passes the time to ``fire`` at the start of each lap. ``LoopTimer``
arms ``loop.call_later`` for the earliest deadline only, at the end of a lap. Rejected: one ``TimerHandle`` of the loop
per sleep; with 100,000 sleepers these cost more than our heap. ``IOLoop.time()`` is unfit as a clock: it is the wall
clock, and ``call_later`` reads it twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Protocol

from ..fast.compiled import compiled
from .run_queues import HIGH

if TYPE_CHECKING:
    from .scheduler import Scheduler

# Discarded entries that are always tolerated. Above this number, half of the heap may be discarded: so a rebuild costs
# O(1) an entry.
COMPACT_ABOVE = 64
# The number of timers that fire in a row before others run, which takes about 0.5 ms. 100,000 in one go took 1 s.
BATCH = 256


class Expiring(Protocol):
    """An object with a deadline: a waiter, a Timeout block, a scope."""

    def _expire(self) -> None: ...


# [deadline, sequence, expiring or None when fired or discarded]. A list: heapq compares it in C, by deadline and then
# by sequence, and it can be emptied in place.
Entry = list[Any]


class Timers:
    """Deadlines in order. A discarded one stays in the heap, empty, until it surfaces or a rebuild drops it."""

    __slots__ = ("discarded", "fired", "heap", "sequence", "urgent")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        # The entries of HIGH waiters. Each is also in the heap, where it stays, empty, once it has fired here.
        self.urgent: list[Entry] = []
        # Also the source of the numbers of Timeout and scope blocks: see cancellation.py.
        self.sequence: Callable[[], int] = itertools.count().__next__
        self.discarded: int = 0
        # So far, for the statistics.
        self.fired: int = 0

    def __len__(self) -> int:
        return len(self.heap) - self.discarded

    def __repr__(self) -> str:
        return f"<Timers {len(self)} armed, {self.discarded} discarded>"

    @compiled  # C: of a dhaga with priority NORMAL, or of no dhaga
    def add(self, deadline: float, expiring: Expiring) -> Entry:
        """Arrange a call of ``expiring._expire()`` at ``deadline`` (the scheduler's clock, seconds)."""
        entry: Entry = [deadline, self.sequence(), expiring]
        heappush(self.heap, entry)
        if getattr(expiring, "own_priority", None) is HIGH:
            heappush(self.urgent, entry)
        return entry

    @compiled  # C: a heap that need not be compacted
    def discard(self, entry: Entry) -> None:
        """Discard an entry; no-op for one that has already fired or been discarded."""
        if entry[2] is None:
            return
        entry[2] = None
        self.discarded += 1
        if self.discarded > COMPACT_ABOVE and self.discarded * 2 > len(self.heap):
            self.heap = [live for live in self.heap if live[2] is not None]
            heapify(self.heap)
            self.discarded = 0
            self.urgent = [live for live in self.urgent if live[2] is not None]
            heapify(self.urgent)

    @compiled  # C: no urgent entries
    def fire(self, now: float) -> bool:
        """Expire one batch of entries due at ``now``, the earliest first, equal deadlines in the order of their
        addition.

        Returns: whether the batch was full. Remaining entries are due at once: the loop's timer starts the next lap.
        """
        if self.urgent:
            self.fire_urgent(now)
        heap = self.heap
        # Discarded entries also count: half of the heap may be due and discarded.
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
                # _expire() may discard other entries, and that may rebuild the heap into a new list.
                heap = self.heap
        return True

    def fire_urgent(self, now: float) -> None:
        """Expire one batch of the entries of HIGH waiters due at ``now``."""
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
        """Return whether there may be something to fire. If the first entry is a discarded one, a lap ends early."""
        return bool(self.heap) and self.heap[0][0] <= now

    def next_deadline(self) -> float | None:
        """Return the earliest armed deadline; None if there is none.

        If many discarded entries precede it, the deadline of one of these: a lap then comes early.
        """
        heap = self.heap
        for _ in range(BATCH):
            if not heap or heap[0][2] is not None:
                break
            heappop(heap)
            self.discarded -= 1
        return heap[0][0] if heap else None


class LoopTimer:
    """One timeout of the host loop, at the scheduler's earliest deadline, which runs a lap."""

    __slots__ = ("deadline", "handle", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.handle: asyncio.TimerHandle | None = None
        self.deadline = 0.0

    def arm(self) -> None:
        """Keep one timeout of the loop armed for the earliest deadline there is now."""
        deadline = self.scheduler.timers.next_deadline()
        if self.handle is not None:
            # A timeout armed too early stays: the idle lap is cheaper than a cancel and a new handle whenever the first
            # of many timeouts is discarded.
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
