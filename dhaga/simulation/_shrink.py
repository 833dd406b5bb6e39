"""Shrinking: take switches away from a failing run as long as it fails in the same way.

Source: A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from ._exhaustive import Schedules
from ._outcome import Order, Outcome, Program, Settings
from ._search import REAL_SECONDS, run_one
from ._standard import replaced
from ._strategies import Exhaustive
from ._switches import Switch, switches_from

MOST_RUNS = 300
"""Runs that each step of a shrinking takes at most."""

FEW = 2
"""Switches that are easy to read."""


Fails = Callable[[Sequence[Switch]], Sequence[Switch] | None]
"""Runs switches. Returns: those that took effect, if the run has failed in the same way; else None."""


class Shrinking:
    """The smallest failing run so far, and the runs that are left."""

    def __init__(
        self, fails: Callable[[Sequence[Switch]], Sequence[Switch] | None], switches: Sequence[Switch]
    ) -> None:
        self.fails = fails
        self.switches = list(switches)
        self.runs_left = MOST_RUNS

    def try_without(self, first: int, size: int) -> bool:
        """Remove ``size`` switches if the run still fails. Returns: whether it does."""
        self.runs_left -= 1
        found = self.fails([*self.switches[:first], *self.switches[first + size :]])
        if found is None or len(found) >= len(self.switches):
            return False
        self.switches = list(found)
        return True

    def run(self) -> list[Switch]:
        """Remove all, then halves, quarters and so on, down to single ones, until none can go."""
        size = len(self.switches)
        while size and self.runs_left > 0:
            first, taken = 0, False
            while first < len(self.switches) and self.runs_left > 0:
                if self.try_without(first, size):
                    taken = True
                else:
                    first += size
            if size == 1 and not taken:
                break
            size = max(1, min(size // 2, len(self.switches)))
        return self.switches


def shrink(program: Program, settings: Settings, outcome: Outcome, real_seconds: float = REAL_SECONDS) -> Outcome:
    """Return the smallest run found that fails as this one does, with its lines; the same one if it cannot be replayed.

    First switches are taken away; if more than two are left, the runs with a single preemption are tried.
    """

    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        text = ",".join(map(str, switches))
        found = run_one(program, settings, Order(outcome.seed, switches=text), real_seconds)
        return switches_from(found.switches) if found.kind == outcome.kind else None

    with replaced():
        switches = switches_from(outcome.switches)
        if fails(switches) is None:
            return outcome
        smallest = Shrinking(fails, switches).run()
        if len(smallest) > FEW:
            found = with_one_preemption(program, settings, outcome, real_seconds)
            smallest = min(smallest, found or smallest, key=len)
        order = Order(outcome.seed, switches=",".join(map(str, smallest)), keep_lines=True)
        return run_one(program, settings, order, real_seconds)


def with_one_preemption(
    program: Program, settings: Settings, outcome: Outcome, real_seconds: float
) -> list[Switch] | None:
    """Return the switches of a run with at most one preemption that fails as this one does."""
    schedules = Schedules(1)
    exhaustive = replace(settings, strategy=Exhaustive(1))
    for prefix in islice(schedules, MOST_RUNS):
        found = run_one(program, exhaustive, Order(outcome.seed, prefix=prefix), real_seconds)
        if found.kind == outcome.kind:
            return switches_from(found.switches)
        schedules.add(len(prefix), found.decisions)
    return None
