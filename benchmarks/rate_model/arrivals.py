"""The open loop: when each request is due is decided beforehand, and nothing that happens to one delays another."""

from math import floor
from time import monotonic

LEAD = 0.05  # seconds to the first arrival: who gives them out is in place by then
EARLY = 1e-3  # of the gap between two: a sleeper until one is due gets it, however the sums are rounded


class Arrivals:
    """Give out the numbers of requests, each once it is due: number n at `start` + n / `rate`.

    Who asks late gets all that have become due meanwhile. Their answers are late by that, and counted so.
    """

    def __init__(self, rate: float, count: int) -> None:
        self.rate = rate
        self.count = count
        self.given = 0
        self.begin()

    def begin(self) -> None:
        """Let the first one be due in a moment; for proxies that had to prepare."""
        self.start = monotonic() + LEAD

    def due(self, number: int) -> float:
        """Return when a request is due, in the time of `monotonic`."""
        return self.start + number / self.rate

    def left(self) -> bool:
        """Return whether there are more to come."""
        return self.given < self.count

    def pause(self) -> float:
        """Return the seconds until the next one is due, 0 if it is due already."""
        return max(0.0, self.due(self.given) - monotonic())

    def take(self) -> range:
        """Return the numbers that have become due since the last call."""
        first = self.given
        self.given = max(first, min(self.count, floor((monotonic() - self.start) * self.rate + EARLY) + 1))
        return range(first, self.given)
