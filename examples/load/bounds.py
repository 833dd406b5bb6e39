"""Bounds on what is measured: `p99<50ms` to search for, `errors>1%` to fail by."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from .quantities import number, percent, seconds, share, told
from .statistics import Figures

FORM = re.compile(r"(p\d{1,2}(?:\.\d+)?|p100|mean|max|errors|rate)\s*(<=|>=|[<>=])\s*(\S+)")
KNOWN = "p50 … p99.9, mean, max (durations), errors (a percentage), rate (runs a second)"


@dataclass(frozen=True)
class Bound:
    """A figure, and the value that it is to stay at or below; `least`: at or above."""

    what: str
    value: float
    least: bool = False

    def found(self, figures: Figures) -> float:
        """Return the figure: seconds, a share, or runs a second. NaN: nothing was measured."""
        if self.what == "errors":
            return figures.errors
        if self.what == "rate":
            return figures.rate
        return figures.latency(self.what)

    def holds(self, figures: Figures) -> bool:
        """Compare. What was not measured holds no bound."""
        found = self.found(figures)
        return found >= self.value if self.least else found <= self.value

    def told(self, value: float) -> str:
        """Write a value of this figure."""
        if math.isnan(value):
            return "nothing measured"
        return percent(value) if self.what == "errors" else f"{value:,.1f}/s" if self.what == "rate" else told(value)

    def __str__(self) -> str:
        return f"{self.what} {'≥' if self.least else '≤'} {self.told(self.value)}"


def to_find(text: str) -> Bound:
    """Read what `--find` looks for: p99=50ms, errors=1%. Raises: ValueError."""
    what, _, value = parts(text, ("=", "<", "<="), "p99=50ms or errors=1%")
    if what == "rate":
        raise ValueError(f"{text!r}: the rate is what is looked for; give a latency or errors, such as p99=50ms")
    return Bound(what, reader(what)(value))


def to_fail_by(text: str) -> Bound:
    """Read what `--fail-if` looks at, and return the bound that is broken if that is true. Raises: ValueError."""
    what, sign, value = parts(text, ("<", ">"), "'p99>200ms', 'errors>1%' or 'rate<500', in quotes")
    return Bound(what, reader(what)(value), least=sign == "<")


def parts(text: str, signs: tuple[str, ...], likes: str) -> tuple[str, str, str]:
    match = FORM.fullmatch(text.strip())
    if match is None or match[2] not in signs:
        raise ValueError(f"{text!r} is no bound: write {likes}; known are {KNOWN}")
    return match[1], match[2], match[3]


def reader(what: str) -> Callable[[str], float]:
    return share if what == "errors" else number if what == "rate" else seconds
