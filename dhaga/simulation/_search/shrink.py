"""Shrinking: the removal of faults and switches from a failing run, while the run still fails in the same way.

Source: A. Zeller, R. Hildebrandt: Simplifying and Isolating Failure-Inducing Input (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Generic, TypeVar

from .._schedule.exhaustive import Schedules
from .._schedule.strategies import Exhaustive
from .._schedule.switches import Switch, switches_from
from .._standard.standard import replaced
from .._world.race_cause import conflict_of
from ..network._faults import numbers_from
from .outcome import Order, Outcome, Program, Settings
from .search import REAL_SECONDS, run_one

MOST_RUNS = 300
"""The largest number of runs in each step of shrinking, except for the last step."""

MOST_SINGLE = 2000
"""The largest number of runs in the last step, which leaves out single switches."""

FEW = 2
"""A number of switches that a reader follows easily."""


Item = TypeVar("Item")


class Shrinking(Generic[Item]):
    """The smallest failing run so far, as the list of its faults or switches, and the number of runs left.

    ``fails(items)`` makes a run with these items. If the run fails in the same way, ``fails`` returns the items that
    took effect. If the run passes or fails otherwise, ``fails`` returns None.
    """

    def __init__(self, fails: Callable[[Sequence[Item]], Sequence[Item] | None], items: Sequence[Item]) -> None:
        self.fails = fails
        self.items = list(items)
        self.runs_left = MOST_RUNS

    def try_without(self, first: int, size: int) -> bool:
        """Remove ``size`` items if the run without them still fails. Returns: whether items were removed."""
        self.runs_left -= 1
        found = self.fails([*self.items[:first], *self.items[first + size :]])
        if found is None or len(found) >= len(self.items):
            return False
        self.items = list(found)
        return True

    def run(self) -> list[Item]:
        """Remove all items if possible, then halves, quarters and so on, until no single item can be removed."""
        size = len(self.items)
        while size and self.runs_left > 0:
            first, taken = 0, False
            while first < len(self.items) and self.runs_left > 0:
                if self.try_without(first, size):
                    taken = True
                else:
                    first += size
            if size == 1 and not taken:
                break
            size = max(1, min(size // 2, len(self.items)))
        return self.items

    def drop_single(self) -> list[Item]:
        """Remove single items until each one is needed, in ``MOST_SINGLE`` runs at most."""
        self.runs_left = MOST_SINGLE
        taken = True
        while taken and self.runs_left > 0:
            taken = False
            for first in reversed(range(len(self.items))):
                # One removal can remove several items, so the list may have become shorter.
                if first < len(self.items) and self.runs_left > 0:
                    taken = self.try_without(first, 1) or taken
        return self.items


class Failing:
    """A failing run, with the switches and faults that have not been removed from it."""

    def __init__(self, program: Program, settings: Settings, outcome: Outcome, real_seconds: float) -> None:
        self.program = program
        self.settings = settings
        self.outcome = outcome
        self.real_seconds = real_seconds
        self.switches = switches_from(outcome.switches)
        self.faults = numbers_from(outcome.faults)

    def order(self, switches: Sequence[Switch], faults: Sequence[str], **more: Any) -> Order:
        return Order(self.outcome.seed, ",".join(map(str, switches)), ",".join(faults), **more)

    def fails(self, switches: Sequence[Switch], faults: Sequence[str]) -> Outcome | None:
        """Make a run with these switches and faults. Returns: the outcome if it failed in the same way, else None."""
        found = run_one(self.program, self.settings, self.order(switches, faults), self.real_seconds)
        return found if found.kind == self.outcome.kind else None

    def fails_with_faults(self, faults: Sequence[str]) -> Sequence[str] | None:
        found = self.fails(self.switches, faults)
        return None if found is None else numbers_from(found.faults)

    def fails_with_switches(self, switches: Sequence[Switch]) -> Sequence[Switch] | None:
        found = self.fails(switches, self.faults)
        return None if found is None else switches_from(found.switches)

    def shrink(self) -> None:
        """Remove faults, then switches, then try to remove more of both."""
        self.faults = Shrinking(self.fails_with_faults, self.faults).run()
        self.switches = Shrinking(self.fails_with_switches, self.switches).run()
        if len(self.switches) > FEW:
            self.switches = min(self.switches, self.with_one_preemption() or self.switches, key=len)
        self.faults = Shrinking(self.fails_with_faults, self.faults).run()
        self.switches = Shrinking(self.fails_with_switches, self.switches).drop_single()

    def find_nearest(self, small: Outcome) -> None:
        """Make a run without the switch that causes the failure, and note the outcome of this run in ``small``."""
        cause = conflict_of(small)
        if cause is None:
            return
        rest = [switch for switch in self.switches if switch != cause.switch]
        order = self.order(rest, self.faults, keep_lines=True)
        found = run_one(self.program, self.settings, order, self.real_seconds)
        small.nearest, small.nearest_lines = found.kind, found.lines

    def with_one_preemption(self) -> list[Switch] | None:
        """Return the switches of a run that has at most one preemption and fails in the same way, or None."""
        schedules = Schedules(1)
        exhaustive = replace(self.settings, strategy=Exhaustive(1))
        for prefix in islice(schedules, MOST_RUNS):
            order = Order(self.outcome.seed, faults=",".join(self.faults), prefix=prefix)
            found = run_one(self.program, exhaustive, order, self.real_seconds)
            if found.kind == self.outcome.kind:
                return switches_from(found.switches)
            schedules.add(len(prefix), found.decisions)
        return None


def shrink(program: Program, settings: Settings, outcome: Outcome, real_seconds: float = REAL_SECONDS) -> Outcome:
    """Return the smallest run found that fails in the same way as ``outcome``, with its executed lines.

    Faults are removed first, then switches. If more than two switches are left, runs with at most one preemption are
    also tried. Returns: ``outcome`` itself if its replay does not fail in the same way.
    """
    with replaced():
        failing = Failing(program, settings, outcome, real_seconds)
        if failing.fails(failing.switches, failing.faults) is None:
            return outcome
        failing.shrink()
        order = failing.order(failing.switches, failing.faults, keep_lines=True)
        small = run_one(program, settings, order, real_seconds)
        failing.find_nearest(small)
        return small
