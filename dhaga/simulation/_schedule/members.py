"""Members: the participants of a run, with numbers that are the same in each run of a seed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ..._kernel.run.run_queues import HighQueue
from ..._kernel.run.scheduler import NewQueue


class Member:
    """A participant of a run: main code (number 0), a dhaga, a task, the event loop, or a part such as the network.

    ``parks`` and ``points`` count the member's steps: its parks, and the places between two lines or instructions that
    it has passed.
    ``priority``: a number that only the strategy ``PCT`` uses (``strategies.py``). ``ran_at``: the time at which the
    member last began to run.
    """

    __slots__ = ("name", "number", "parks", "points", "priority", "ran_at")

    def __init__(self, number: int, name: str) -> None:
        self.number: int = number
        self.name: str = name
        self.parks: int = 0
        self.points: int = 0
        self.priority: float | None = None
        self.ran_at: float = 0.0

    def __repr__(self) -> str:
        return f"<Member {self.number} {self.name}>"


CLOCK = -1
"""The number of the clock, a member that takes no steps."""


class Clock(Member):
    """The member that represents time. If the clock is chosen, the running member stands still until the next deadline.

    A real OS thread can also stand still between two lines, while other threads compute. The strategy ``PCT`` raises
    ``priority`` to choose the clock.
    """

    def __init__(self) -> None:
        super().__init__(CLOCK, "the clock")
        self.priority = -math.inf


class Members:
    """All members of a run, in the order of their creation."""

    def __init__(self) -> None:
        self.all: list[Member] = []
        self.by_ident: dict[int | None, Member] = {}
        self.others: dict[str, Member] = {}
        self.names: dict[str, int] = {}
        self.clock = Clock()

    def of(self, waiter: Any) -> Member:
        """Return the member of a waiter (a dhaga or main code). The first call creates the member.

        All calls of the event loop share one member.
        """
        ident = getattr(waiter, "ident", None)
        found = self.by_ident.get(ident)
        if found is None:
            name = "the event loop" if ident is None else waiter.name
            found = self.by_ident[ident] = self.new(name)
        return found

    def of_name(self, name: str) -> Member:
        """Return the member of a part of the simulation, such as the network. The first call creates the member."""
        found = self.others.get(name)
        if found is None:
            found = self.others[name] = self.new(name)
        return found

    def new(self, name: str) -> Member:
        """Add a member. If an earlier member has the same name, add a number to the name. Returns: the member."""
        number = self.names[name] = self.names.get(name, 0) + 1
        found = Member(len(self.all), name if number == 1 else f"{name} ({number})")
        self.all.append(found)
        return found

    def named(self, number: int) -> str:
        """Return the name of the member with this number."""
        if number == CLOCK:
            return self.clock.name
        return self.all[number].name if number < len(self.all) else f"member {number}"


def waiter_behind(entry: Any, earlier: int = 0) -> Any:
    """Return the waiter of a run-queue entry. An entry that is itself a queue occurs once for each waiter in it.

    ``earlier``: the number of earlier occurrences of the same entry. -1 gives the waiter that was added last.
    """
    if type(entry) is NewQueue:
        return entry.not_started[earlier]
    return entry.waiters[earlier] if type(entry) is HighQueue else entry


def waiters_behind(queue: Iterable[Any]) -> list[Any]:
    """Return the waiters of all entries of a run queue, in the same order."""
    seen: dict[int, int] = {}
    found = []
    for entry in queue:
        earlier = seen.get(id(entry), 0)
        seen[id(entry)] = earlier + 1
        found.append(waiter_behind(entry, earlier))
    return found


def remove_all(
    queue: deque[Any], unwanted: Callable[[Any], bool], beside: list[Any] | None = None
) -> list[tuple[Any, Any]]:
    """Remove the entries of unwanted waiters from a run queue. Returns: each removed entry with its waiter, in order.

    ``beside``: a list with one item for each entry. The items of the removed entries are also removed.
    """
    removed = []
    for place, waiter in reversed(list(enumerate(waiters_behind(queue)))):
        if unwanted(waiter):
            entry = queue[place]
            removed.append((entry, waiter))
            if type(entry) is NewQueue:
                entry.not_started.remove(waiter)
            elif type(entry) is HighQueue:
                entry.waiters.remove(waiter)
            del queue[place]
            if beside is not None:
                del beside[place]
    return removed[::-1]
