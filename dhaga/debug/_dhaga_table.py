"""The table of all dhagas, as ``ps`` has one of processes: filtered, sorted, with counts and CPU shares.

It is read from an OS thread, so that no scheduler is held up; so a row is a sample, and two rows may be a moment apart.
Cheap columns are read of all dhagas, to count, filter and sort by; the dear ones (holders, what is waited on) only of
the rows that are shown.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._kernel import wait_graph
from .._kernel.microthread import Dhaga
from .._kernel.scheduler import schedulers
from .._kernel.thread_waiter import os_threads
from .._kernel.waiter import Waiter
from .._kernel.weak_sets import members
from ._cpu_share import Shares
from ._snapshot import kind_of, view_of, waiters_of

DEFAULT_ROWS = 200
"""Rows shown by default."""

TOP_REASONS = 8
"""The most frequent reasons, without the numbers at their ends, that are listed with their counts."""


@dataclass(frozen=True, slots=True)
class DhagaRow:
    """The cheap columns of one dhaga, main code or parked OS thread."""

    waiter: Waiter
    ident: int
    name: str
    state: str
    reason: str
    since: float
    scheduler: str
    share: float

    def text(self) -> str:
        """Return what a filter is looked for in."""
        return f"{self.name} {self.state} {self.reason} {self.scheduler}".lower()


SORTS: dict[str, Callable[[DhagaRow], Any]] = {
    "share": lambda row: (-row.share, row.state == "WAITING", row.ident),
    "waited": lambda row: (row.state != "WAITING", row.since, row.ident),
    "name": lambda row: (row.name, row.ident),
    "state": lambda row: (row.state, row.reason, row.ident),
    "reason": lambda row: (not row.reason, row.reason, row.ident),
    "age": lambda row: row.ident,
}
"""Sort keys; the largest share, the longest wait and the oldest dhaga come first."""


class DhagaTable:
    """The table of this process, for repeated queries: it keeps the CPU accounting on while they come."""

    def __init__(self) -> None:
        self.shares = Shares()

    def table(self, filter: str = "", sort: str = "share", most: int = DEFAULT_ROWS) -> dict[str, Any]:
        """Return a headline, counts of all dhagas, and the first ``most`` rows of those in which ``filter`` is found.

        From: any OS thread. Raises: ValueError for an unknown sort key, ProbeUnavailable.
        """
        if sort not in SORTS:
            raise ValueError(f"rows are sorted by {', '.join(SORTS)}, not by {sort!r}")
        measured = bool(self.shares.run_times)
        rows = list(all_rows(self.shares.now()))
        matching = [row for row in rows if filter.lower() in row.text()]
        matching.sort(key=SORTS[sort])
        reasons = Counter(stem(row.reason) for row in rows if row.reason)
        states = Counter(row.state for row in rows)
        return {
            "pid": os.getpid(),
            "headline": headline(Counter(kind_of(row.waiter) for row in rows), states),
            "time": time.time(),
            "total": len(rows),
            "matching": len(matching),
            "measured": measured,
            "states": states,
            "reasons": reasons.most_common(TOP_REASONS),
            "cycles": cycles(rows),
            "rows": [all_columns(row) for row in matching[: max(0, most)]],
        }


def all_rows(shares: dict[int, float]) -> Iterator[DhagaRow]:
    """Yield the rows of each scheduler, then those of the plain OS threads that are parked on an object of Dhaga's."""
    for scheduler in sorted(schedulers, key=lambda each: each.name):
        for waiter in waiters_of(scheduler):
            yield row_of(waiter, scheduler.name, shares)
    for thread in members(os_threads):
        if thread._parked:
            yield row_of(thread, "", shares)


def row_of(waiter: Any, scheduler: str, shares: dict[int, float]) -> DhagaRow:
    reason = waiter._reason if waiter._parked else ""
    state = waiter.state if isinstance(waiter, Dhaga) else "WAITING" if reason else "RUNNING"
    ident = waiter.ident
    return DhagaRow(waiter, ident, waiter.name, state, reason, waiter._since, scheduler, shares.get(ident, 0.0))


def headline(kinds: Mapping[str, int], states: Mapping[str, int]) -> str:
    """Return what is counted, and how many are in which state: ``44 dhagas, main code: 44 waiting, 1 running``."""
    parts = [counted(kinds.get("dhaga", 0), "dhaga")]
    if main := kinds.get("main code"):
        parts.append("main code" if main == 1 else f"main code of {main} threads")
    if threads := kinds.get("OS thread"):
        parts.append(counted(threads, "OS thread"))
    in_states = [f"{count:,} {state.lower()}" for state, count in sorted(states.items(), key=lambda each: -each[1])]
    return ": ".join(", ".join(each) for each in (parts, in_states) if each)


def stem(reason: str) -> str:
    """Return a reason without the number at its end: ``read fd`` for ``read fd 7``."""
    return reason.rstrip("0123456789 ")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cycles(rows: list[DhagaRow]) -> list[list[str]]:
    """Return the cycles of the wait-for graph, each as the names of its waiters."""
    parked = [row.waiter for row in rows if row.reason and wait_graph.holders(row.waiter)]
    return [[waiter.name for waiter in circle] for circle in wait_graph.cycles(parked)]


def all_columns(row: DhagaRow) -> dict[str, Any]:
    """Return the row with its dear columns, ready for JSON."""
    view = view_of(row.waiter)
    return {
        "ident": row.ident,
        "name": row.name,
        "kind": view.kind,
        "scheduler": row.scheduler,
        "state": row.state,
        "reason": row.reason,
        "seconds": view.seconds if row.reason and row.since else None,  # 0 until the clock was read at a park
        "share": row.share,
        "waits_on": view.waits_on,
        "held_by": view.held_by,
    }
