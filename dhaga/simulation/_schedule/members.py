"""Members: the dhagas and the main code of a run, by numbers that are the same in each run of a seed."""

from __future__ import annotations

import math
from typing import Any

from ..._kernel.run.run_queues import HighQueue
from ..._kernel.run.scheduler import NewQueue


class Member:
    """A dhaga, the main code (number 0) or a call of the event loop. ``parks`` and ``points`` count its steps.

    ``priority``: of PCT, which draws it at the first step.
    """

    __slots__ = ("name", "number", "parks", "points", "priority")

    def __init__(self, number: int, name: str) -> None:
        self.number: int = number
        self.name: str = name
        self.parks: int = 0
        self.points: int = 0
        self.priority: float | None = None

    def __repr__(self) -> str:
        return f"<Member {self.number} {self.name}>"


CLOCK = -1
"""The number of the clock, which takes no step."""


class Clock(Member):
    """Stands for time: chosen at a point, it lets the running member stand still until the next deadline.

    A thread of the OS may also do so between any two lines, for as long as others compute. PCT raises ``priority``.
    """

    def __init__(self) -> None:
        super().__init__(CLOCK, "the clock")
        self.priority = -math.inf


class Members:
    """All members of a run, in the order of their first steps."""

    def __init__(self) -> None:
        self.all: list[Member] = []
        self.by_ident: dict[int | None, Member] = {}
        self.others: dict[str, Member] = {}
        self.clock = Clock()

    def of(self, waiter: Any) -> Member:
        """Return the member for a waiter; a new one at its first step. Calls on the hub share one."""
        ident = getattr(waiter, "ident", None)
        found = self.by_ident.get(ident)
        if found is None:
            name = "the event loop" if ident is None else waiter.name
            found = self.by_ident[ident] = self.new(name)
        return found

    def of_name(self, name: str) -> Member:
        """Return the member for a part of the simulation, such as the network; a new one at its first event."""
        found = self.others.get(name)
        if found is None:
            found = self.others[name] = self.new(name)
        return found

    def new(self, name: str) -> Member:
        """Add a member. Returns: it."""
        found = Member(len(self.all), name)
        self.all.append(found)
        return found

    def named(self, number: int) -> str:
        """Return a member's name."""
        if number == CLOCK:
            return self.clock.name
        return self.all[number].name if number < len(self.all) else f"member {number}"


def waiter_behind(entry: Any, earlier: int = 0) -> Any:
    """Return the waiter that an entry of the run queue stands for. ``earlier``: equal entries before it."""
    if type(entry) is NewQueue:
        return entry.not_started[earlier]
    return entry.waiters[earlier] if type(entry) is HighQueue else entry
