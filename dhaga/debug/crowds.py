"""Crowds: everybody of this process in one table, looked at from outside, so that no scheduler is held up by it.

What costs little is taken of all, to count, filter and sort them by; the rest only of those that are shown.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dhaga.kernel.microthread import Dhaga
from dhaga.kernel.osthread import os_threads
from dhaga.kernel.scheduler import schedulers
from dhaga.kernel.waiter import Waiter

from . import holders
from .shares import Shares
from .views import everybody_of, view_of

SHOWN = 200
"""Rows that are given by default."""

COMMONEST = 8
"""Reasons that are told with their counts."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody, as far as that costs little."""

    waiter: Waiter
    ident: int
    name: str
    state: str
    reason: str
    since: float
    scheduler: str
    share: float

    def text(self) -> str:
        return f"{self.name} {self.state} {self.reason} {self.scheduler}".lower()


SORTS: dict[str, Callable[[Person], Any]] = {
    "share": lambda who: (-who.share, who.state == "WAITING", who.ident),
    "waited": lambda who: (who.state != "WAITING", who.since, who.ident),
    "name": lambda who: (who.name, who.ident),
    "state": lambda who: (who.state, who.reason, who.ident),
    "reason": lambda who: (not who.reason, who.reason, who.ident),
    "age": lambda who: who.ident,
}
"""What rows can be sorted by: who runs most, waits longest, was spawned first come first."""


class Crowd:
    """Look at everybody of this process, again and again."""

    def __init__(self) -> None:
        self.shares = Shares()

    def table(self, filter: str = "", sort: str = "share", most: int = SHOWN) -> dict[str, Any]:
        """Return counts of all, and the first rows of those in which ``filter`` is found. Raises: ValueError."""
        if sort not in SORTS:
            raise ValueError(f"rows are sorted by {', '.join(SORTS)}, not by {sort!r}")
        measured = bool(self.shares.ledgers)
        shares = self.shares.now()
        everybody = list(people(shares))
        matching = [who for who in everybody if filter.lower() in who.text()]
        matching.sort(key=SORTS[sort])
        reasons = Counter(who.reason for who in everybody if who.reason)
        return {
            "pid": os.getpid(),
            "time": time.time(),
            "total": len(everybody),
            "matching": len(matching),
            "measured": measured,
            "states": Counter(who.state for who in everybody),
            "reasons": reasons.most_common(COMMONEST),
            "circles": circles(everybody),
            "rows": [row(who) for who in matching[: max(0, most)]],
        }


def people(shares: dict[int, float]) -> Iterator[Person]:
    """Yield everybody, by scheduler, then the plain OS threads that wait for something of Dhaga's."""
    for scheduler in sorted(schedulers, key=lambda each: each.name):
        for waiter in everybody_of(scheduler):
            yield person(waiter, scheduler.name, shares)
    for thread in list(os_threads):
        if thread.parked:
            yield person(thread, "", shares)


def person(waiter: Any, scheduler: str, shares: dict[int, float]) -> Person:
    reason = "".join(waiter.parked[:1])
    state = waiter.state if isinstance(waiter, Dhaga) else "WAITING" if reason else "RUNNING"
    ident = waiter.ident
    return Person(waiter, ident, waiter.name, state, reason, waiter.since, scheduler, shares.get(ident, 0.0))


def circles(everybody: list[Person]) -> list[list[str]]:
    """Return the names of those who wait for each other."""
    parked = [who.waiter for who in everybody if who.reason and holders.holders(who.waiter)]
    return [[waiter.name for waiter in circle] for circle in holders.circles(parked)]


def row(who: Person) -> dict[str, Any]:
    """Return what is shown of somebody."""
    view = view_of(who.waiter)
    return {
        "ident": who.ident,
        "name": who.name,
        "kind": view.kind,
        "scheduler": who.scheduler,
        "state": who.state,
        "reason": who.reason,
        "seconds": view.seconds if who.reason and who.since else None,  # at its first park it has just been marked
        "share": who.share,
        "waits_on": view.waits_on,
        "held_by": view.held_by,
    }
