"""What is counted and measured: a Tally for each name of requests, and Statistics for a period of time."""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dhaga.metrics import Counter, RateMeter, Reading

from .latency_histogram import LatencyHistogram

MOST = 100
"""Names with a tally of their own: each takes 185 KB. Further ones share the last."""

OTHERS = "(further names)"


class Tally:
    """The requests of one name, or a step of several: latencies, failures, and the statuses that were answered."""

    def __init__(self, is_step: bool = False) -> None:
        self.is_step = is_step
        self.latencies = LatencyHistogram()
        self.done = Counter()
        self.failed = Counter()
        self.statuses: collections.Counter[str] = collections.Counter()

    def note(self, seconds: float, failed: bool, status: int | None) -> None:
        """Take in one request that has ended."""
        self.latencies.note(seconds)
        self.done.add()
        if failed:
            self.failed.add()
        if status is not None:
            self.statuses[f"{status // 100}xx"] += 1


@dataclass
class Statistics:
    """The runs and requests of a period of time. The attribute ``Load.book`` holds the current Statistics.

    A run that is due is dropped, or begins; then it passes, fails, is cut off, or is still under way:
    `carried + due == dropped + passed + failed + cut + under way`, where those were carried that were under way at the
    beginning.
    """

    carried: int = 0
    clock: Callable[[], float] = time.monotonic
    due: Counter = field(default_factory=Counter)
    dropped: Counter = field(default_factory=Counter)
    passed: Counter = field(default_factory=Counter)
    failed: Counter = field(default_factory=Counter)
    cut: Counter = field(default_factory=Counter)
    tallies: dict[str, Tally] = field(default_factory=dict)
    failures: collections.Counter[str] = field(default_factory=collections.Counter)
    lateness: LatencyHistogram = field(default_factory=LatencyHistogram)
    window: Reading | None = None
    cpu: float = 0.0

    def __post_init__(self) -> None:
        self.ended = RateMeter(clock=self.clock)
        self.cpu_before = time.process_time()

    @property
    def under_way(self) -> int:
        """Return how many runs have begun and not ended."""
        ended = self.dropped.total + self.passed.total + self.failed.total + self.cut.total
        return self.carried + self.due.total - ended

    def tally(self, name: str, is_step: bool = False) -> Tally:
        """Return the tally of a name."""
        tally = self.tallies.get(name)
        if tally is None:
            name = name if len(self.tallies) < MOST else OTHERS
            tally = self.tallies.setdefault(name, Tally(is_step))
        return tally

    @property
    def requests(self) -> list[Tally]:
        """Return the tallies of requests: what steps measure is in them, too."""
        return [tally for tally in self.tallies.values() if not tally.is_step]

    def drop(self, most: int) -> None:
        """Take in a run that was due and could not begin."""
        self.dropped.add()
        self.failures[f"dropped: {most:,} runs were under way"] += 1

    def end(self, trouble: str | None) -> None:
        """Take in a run that has ended; `trouble`: what made it fail."""
        self.ended.add()
        if trouble is None:
            self.passed.add()
        else:
            self.failed.add()
            self.failures[trouble] += 1

    def close(self) -> None:
        """End the time that rates are of; runs that are under way may still end, and be taken in."""
        if self.window is None:
            self.window = self.ended.read()
            self.cpu = time.process_time() - self.cpu_before

    def figures(self) -> Figures:
        """Return what there is to tell. The time must have ended."""
        assert self.window is not None
        return Figures(self, self.window)


class Figures:
    """What a book tells: rates, shares and latencies, of all requests."""

    def __init__(self, book: Statistics, window: Reading) -> None:
        self.book = book
        self.seconds = window.elapsed
        self.rate = window.rate
        self.latencies = LatencyHistogram()
        for tally in book.requests:
            self.latencies.add(tally.latencies)

    @property
    def asked(self) -> float:
        """Return how many runs were due a second."""
        return self.book.due.total / self.seconds if self.seconds else 0.0

    @property
    def errors(self) -> float:
        """Return the share of failed, dropped and cut runs in all that have ended; NaN if none has."""
        book = self.book
        bad = book.failed.total + book.dropped.total + book.cut.total
        ended = bad + book.passed.total
        return bad / ended if ended else math.nan

    @property
    def busy(self) -> float:
        """Return the share of one CPU that the tester itself took."""
        return self.book.cpu / self.seconds if self.seconds else 0.0

    def latency(self, what: str) -> float:
        """Return pNN, mean or max, in seconds; NaN if no request has ended."""
        return self.latencies.value(what)
