"""Counting what happens, and how fast: from any dhaga of any scheduler, any callback and any OS thread, without a lock.

A Counter only goes up; whoever reads it keeps a mark of how far, so nothing is lost or told twice. What it relies on is
said in ``locks.py``: the lines marked ``one step``. Histograms, labels and exports are for libraries that have them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsIndex

from .kernel import originals


class Counter:
    """A number that goes up. An ``add`` takes 68 ns.

    With a cell for each OS thread, which only its owner writes, it took 117 by ``threading.local`` and 92 by a dict of
    thread idents; under a ``threading.Lock`` 194; and 47 without the look at what is added.
    """

    __slots__ = ("taken", "total")

    def __init__(self) -> None:
        self.total = 0  # of all times, to be read by anybody
        self.taken = 0

    def __repr__(self) -> str:
        return f"<Counter {self.total}, {self.total - self.taken} since the last take>"

    def add(self, n: int = 1) -> None:
        """Count ``n`` more. Parks: never. From: anywhere. Raises: TypeError, ValueError if it is below 0."""
        if type(n) is not int or n < 0:
            n = whole(n)
        self.total += n  # one step

    def take(self) -> int:
        """Read and reset. Parks: never. From: anywhere. Returns: what was added since the last ``take`` of anybody."""
        former = self.taken; total = self.taken = self.total  # one step  # fmt: skip  # noqa: E702
        return total - former


def whole(n: SupportsIndex) -> int:
    """Return what can be added, as a plain int: sums of others may run code of their own amid a step."""
    number = int(operator.index(n))
    if number < 0:
        raise ValueError(f"a Counter only goes up: it cannot add {number}")
    return number


@dataclass(frozen=True, slots=True)
class Reading:
    """What was counted in ``elapsed`` seconds. ``+`` joins two, ``sum(readings, Reading())`` many, to a mean rate."""

    count: int = 0
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Return the count per second; 0 if no time has passed."""
        return self.count / self.elapsed if self.elapsed else 0.0

    def __add__(self, other: Reading) -> Reading:
        if not isinstance(other, Reading):
            return NotImplemented
        return Reading(self.count + other.count, self.elapsed + other.elapsed)


class RateMeter:
    """A Counter by the clock. Any number of meters may watch one counter, each read at a pace of its own.

    A poller that is late, as all are at times, has a longer ``elapsed`` for it, not a higher rate. The rate over
    several readings is that of their sum; the mean of their rates would give the short ones too much weight.
    """

    __slots__ = ("add", "clock", "counter", "mark")

    def __init__(self, counter: Counter | None = None, clock: Callable[[], float] = originals.monotonic) -> None:
        self.counter = Counter() if counter is None else counter
        self.add = self.counter.add  # itself: another method around it would double what an add takes
        self.clock = clock
        self.mark = (self.counter.total, clock())

    def __repr__(self) -> str:
        count, since = self.mark
        return f"<RateMeter {self.counter.total - count} in {self.clock() - since:.3f} s since the last read>"

    def read(self) -> Reading:
        """Return what was counted since the last ``read`` of anybody, or since the meter was made, and start anew.

        Parks: never. From: anywhere.
        """
        former = self.mark
        # Nobody runs between the two: the other way round a thread that waits for its turn here would count what was
        # added meanwhile, and leave out the time.
        total = self.counter.total; now = self.clock()  # one step  # fmt: skip  # noqa: E702
        mark = total, now
        if self.mark is former: self.mark = mark  # one step  # fmt: skip  # noqa: E701
        else:
            return self.read()  # another thread has read in between
        return Reading(total - former[0], now - former[1])
