"""Deadlines of one scheduler in one heap. No clock and no loop here: the scheduler brings the time and wakes up for
it.
"""

from __future__ import annotations

import itertools
from heapq import heapify, heappop, heappush
from typing import Any, Protocol

COMPACT_ABOVE = 64
"""Dead entries that are always tolerated; above, they may be half of the heap (a rebuild then costs O(1) an entry)."""


class Expiring(Protocol):
    def expire(self) -> None: ...


Entry = list[Any]
"""[deadline, sequence, who expires or None when done or discarded]. A list: heapq compares it in C, and it can be
emptied.
"""


class Timers:
    """Keep deadlines in order; a discarded one stays in the heap, empty, until it surfaces or a rebuild drops it."""

    __slots__ = ("dead", "fired", "heap", "sequence")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.sequence = itertools.count().__next__
        self.dead = 0
        self.fired = 0  # so far

    def __len__(self) -> int:
        return len(self.heap) - self.dead

    def __repr__(self) -> str:
        return f"<Timers {len(self)} armed, {self.dead} discarded>"

    def add(self, deadline: float, who: Expiring) -> Entry:
        """Have ``who.expire()`` called once ``deadline`` (the scheduler's clock, seconds) is reached."""
        entry: Entry = [deadline, self.sequence(), who]
        heappush(self.heap, entry)
        return entry

    def discard(self, entry: Entry) -> None:
        """Forget an entry; one that has fired or is discarded already is left alone."""
        if entry[2] is None:
            return
        entry[2] = None
        self.dead += 1
        if self.dead > COMPACT_ABOVE and self.dead * 2 > len(self.heap):
            self.heap = [live for live in self.heap if live[2] is not None]
            heapify(self.heap)
            self.dead = 0

    def fire(self, now: float) -> None:
        """Expire everything due at ``now``, earliest first, equal deadlines in the order they were added."""
        heap = self.heap
        while heap and heap[0][0] <= now:
            entry = heappop(heap)
            who, entry[2] = entry[2], None
            if who is None:
                self.dead -= 1
            else:
                self.fired += 1
                who.expire()
                heap = self.heap  # expiring may discard others, and that may rebuild

    def due(self, now: float) -> bool:
        """Tell whether there may be something to fire."""
        return bool(self.heap) and self.heap[0][0] <= now

    def next_deadline(self) -> float | None:
        """Return the earliest deadline still wanted."""
        heap = self.heap
        while heap and heap[0][2] is None:
            heappop(heap)
            self.dead -= 1
        return heap[0][0] if heap else None
