"""The highest rate at which a bound holds, by steps: doubled until one fails, then halfway between pass and fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .bounds import Bound
from .load import Load
from .open_loop import MOST
from .quantities import percent, told
from .runner import OpenLoad, conduct
from .statistics import Figures

WARM_UP = 0.2
"""The ramp before a step, as a fraction of the step. The rate grows from 0, so that connections exist at the start."""

BEHIND, FEW = 0.05, 3
"""Runs that may end after the step in which they were due: this fraction, but at least so many. More are a queue."""

SAMPLES = 10
"""Minimum number of requests above a percentile, or of failures, because fewer are chance. Steps last accordingly."""

LONGEST = 60.0  # seconds of a step for that

TRIES = 2
"""A step fails if it fails this many times, because a single delay may come from the machine."""

CLOSE = 0.05
"""The search ends once the passed and the failed rate differ by at most this fraction."""

LOWEST = 1.0  # runs a second: where even that fails, the bound cannot be held
ERRORS = Bound("errors", 0.01)
"""This bound applies unless another bound on errors is given, because a server that refuses requests is fast."""


@dataclass(frozen=True)
class Step:
    """A rate that was tried, and what kept it from passing."""

    rate: float
    seconds: float
    figures: Figures
    broken: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Return whether all bounds held."""
        return not self.broken

    def __str__(self) -> str:
        """Return a line that tells of it."""
        ended = f"{self.rate:9,.4g}/s for {self.seconds:4.1f} s: {self.figures.rate:9,.1f}/s ended"
        latency = f"p99 {told(self.figures.latency('p99'))}, {percent(self.figures.errors)} errors"
        return f"{ended}, {latency}: {'passed' if self.passed else 'failed, ' + ', '.join(self.broken)}"


class RateSearch:
    """Try rates; `steps` are all that were tried, `passed` and `failed` the highest and lowest of them so far."""

    def __init__(
        self, load: Load, bounds: Sequence[Bound], seconds: float, tell: Callable[[Step], object], most: int = MOST
    ) -> None:
        self.load = load
        self.wanted = list(bounds)
        self.bounds = [*bounds, *([] if any(bound.what == "errors" for bound in bounds) else [ERRORS])]
        self.seconds = seconds
        self.tell = tell
        self.most = most
        self.steps: list[Step] = []
        self.passed: Step | None = None
        self.failed: Step | None = None

    @property
    def share(self) -> float:
        """Return the least share of requests that a bound is about: the hundredth above p99, or the errors."""
        points = [1 - float(bound.what[1:]) / 100 for bound in self.wanted if bound.what[0] == "p"]
        errors = [bound.value for bound in self.wanted if bound.what == "errors"]
        return min([share for share in points + errors if share > 0], default=ERRORS.value)

    def lasting(self, rate: float) -> float:
        """Return how long a step has to be."""
        return max(self.seconds, min(SAMPLES / (self.share * rate), LONGEST))

    def first_rate(self) -> float:
        """Return the lowest rate whose step needs no more time than was asked for."""
        return SAMPLES / (self.share * self.seconds)

    def find(self, rate: float) -> Step | None:
        """Look for the highest rate, from one on. Parks: meanwhile. Returns: the last step that passed, if any did."""
        while not self.found():
            self.attempt(rate)
            rate = self.next_rate()
        return self.passed

    def found(self) -> bool:
        """Return whether there is nothing more to try."""
        if self.failed is None:
            return False
        if self.passed is None:
            return self.failed.rate <= LOWEST
        return self.failed.rate <= self.passed.rate * (1 + CLOSE)

    def next_rate(self) -> float:
        if self.failed is None:
            assert self.passed is not None
            return 2 * self.passed.rate
        if self.passed is None:
            return max(LOWEST, self.failed.rate / 2)
        return (self.passed.rate + self.failed.rate) / 2

    def attempt(self, rate: float) -> None:
        """Try a rate, twice if need be."""
        for _ in range(TRIES):
            step = self.step(rate)
            self.steps.append(step)
            self.tell(step)
            if step.passed:
                self.passed = step
                return
        self.failed = step

    def step(self, rate: float) -> Step:
        seconds = self.lasting(rate)
        figures = conduct(self.load, OpenLoad(rate, seconds, WARM_UP * seconds, self.most)).figures()
        return Step(rate, seconds, figures, tuple(self.complaints(rate * seconds, figures)))

    def complaints(self, due: float, figures: Figures) -> list[str]:
        found = [(bound, bound.found(figures)) for bound in self.bounds if not bound.holds(figures)]
        broken = [f"{bound.what} {bound.told(value)}" for bound, value in found]
        behind = due - figures.rate * figures.seconds
        if behind > max(BEHIND * due, FEW):
            broken.append(f"{percent(min(1.0, behind / due))} of what was due was left over")
        return broken
