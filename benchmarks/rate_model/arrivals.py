"""The open loop: the due time of each request is fixed in advance, so a slow request never delays another request."""

from math import floor
from time import monotonic

LEAD = 0.05  # seconds until the first arrival, so that the distributor is ready by then
EARLY = 1e-3  # fraction of the gap: a sleep until a due time is long enough in spite of rounding


class Arrivals:
    """Distributor of the numbers of requests. Number n is due at `start` + n / `rate`.

    A late call of `take` gets all numbers that have become due meanwhile. The delay counts as latency of their answers.
    """

    def __init__(self, rate: float, count: int) -> None:
        self.rate = rate
        self.count = count
        self.given = 0
        self.begin()

    def begin(self) -> None:
        """Set the first request's due time to `LEAD` seconds from now. Call this after the proxy's preparations."""
        self.start = monotonic() + LEAD

    def due(self, number: int) -> float:
        """Return the due time of a request, on the clock `monotonic`."""
        return self.start + number / self.rate

    def left(self) -> bool:
        """Return whether more requests will become due."""
        return self.given < self.count

    def pause(self) -> float:
        """Return the seconds until the next request is due; 0 if it is due already."""
        return max(0.0, self.due(self.given) - monotonic())

    def take(self) -> range:
        """Return the numbers that have become due since the last call."""
        first = self.given
        self.given = max(first, min(self.count, floor((monotonic() - self.start) * self.rate + EARLY) + 1))
        return range(first, self.given)
