"""Counters and rate meters, usable from any dhaga, callback and OS thread without a lock.

A Counter only increases; each reader remembers the count that it has read, so nothing is lost or counted twice. That
rests on atomic lines, which ``_sync/lock.py`` explains. Histograms, labels and exports are left to other libraries.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsIndex

from ._kernel import originals
from ._kernel.interpreter.guards import Guarded


class Counter(Guarded):
    """A number that only goes up. An ``add`` takes 68 ns; without the check of its argument it would take 47 ns.

    Rejected: a cell for each OS thread, which takes 117 ns with ``threading.local``, and 92 ns with a dict of thread
    idents; a ``threading.Lock``, which takes 194 ns.
    """

    __slots__ = ("_taken", "total")

    def __init__(self) -> None:
        self.total: int = 0  # since the beginning; any code may read it
        self._taken = 0

    def __repr__(self) -> str:
        return f"<Counter {self.total}, {self.total - self._taken} since the last take>"

    def add(self, n: int = 1) -> None:
        """Add ``n``. Parks: never. From: any thread. Raises: TypeError, ValueError if it is below 0."""
        if type(n) is not int or n < 0:
            n = whole(n)
        self.total += n  # atomic

    def take(self) -> int:
        """Read and reset. Parks: never. From: any thread. Returns: the sum added since the last ``take``."""
        former = self._taken; total = self._taken = self.total  # atomic  # fmt: skip
        return total - former


def whole(n: SupportsIndex) -> int:
    """Return a number as a plain int: the ``__add__`` of another type may run code within the atomic line."""
    number = int(operator.index(n))
    if number < 0:
        raise ValueError(f"a Counter only goes up: it cannot add {number}")
    return number


@dataclass(frozen=True, slots=True)
class Reading:
    """A count in ``elapsed`` seconds. ``+`` and ``sum(readings, Reading())`` join readings to their mean rate."""

    count: int = 0
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """The count per second; 0 if no time has passed."""
        return self.count / self.elapsed if self.elapsed else 0.0

    def __add__(self, other: Reading) -> Reading:
        if not isinstance(other, Reading):
            return NotImplemented
        return Reading(self.count + other.count, self.elapsed + other.elapsed)


class RateMeter(Guarded):
    """The rate of a Counter. Several meters may read one counter, each at its own pace.

    A late poller reads a longer ``elapsed``, not a higher rate. For a rate over several readings, add the readings: the
    mean of their rates would give short readings too much weight.

    >>> meter = RateMeter()
    >>> meter.add(), meter.add(2), meter.read().count, meter.read().count
    (None, None, 3, 0)
    """

    __slots__ = ("_clock", "_mark", "add", "counter")

    def __init__(self, counter: Counter | None = None, clock: Callable[[], float] = originals.monotonic) -> None:
        self.counter: Counter = Counter() if counter is None else counter
        self.add: Callable[..., None] = self.counter.add  # bound directly: a wrapping method would double the cost
        self._clock = clock
        self._mark = (self.counter.total, clock())

    def __repr__(self) -> str:
        count, since = self._mark
        return f"<RateMeter {self.counter.total - count} in {self._clock() - since:.3f} s since the last read>"

    def read(self) -> Reading:
        """Return the count and time since the last ``read`` by any caller, or since the meter was made.

        Parks: never. From: any thread.
        """
        former = self._mark
        # The clock is read last, because that call may let another OS thread run: otherwise a thread that is switched
        # out here would count additions of that time, but not the time itself.
        total = self.counter.total; now = self._clock()  # atomic  # fmt: skip
        mark = total, now
        if self._mark is former: self._mark = mark  # atomic  # fmt: skip
        else:
            return self.read()  # another OS thread has read in between
        return Reading(total - former[0], now - former[1])
