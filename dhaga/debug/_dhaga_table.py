"""The table of all dhagas, like ``ps`` for processes: filtered, sorted, with counts and CPU shares.

It is read from an OS thread, so that no scheduler is delayed; each row is a sample, and two rows may differ slightly in
time. Cheap columns are read for all dhagas, to count, filter and sort; expensive ones (holders, targets of waits) only
for the rows that are shown.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._kernel.run.scheduler import schedulers
from .._kernel.wait import wait_graph
from .._kernel.wait.thread_waiter import os_threads
from .._kernel.wait.waiter import Waiter
from .._kernel.weak_sets import members
from ._cpu_share import Shares
from ._snapshot import kind_of, state_of, view_of, waiters_of

DEFAULT_ROWS = 200
"""Rows shown by default."""

ROWS_OF_GROUP = 20
"""In a grouped table, this number of rows of each state and reason are chosen before further rows."""

TOP_REASONS = 8
"""Number of the most frequent reasons (without trailing numbers) that are listed with their counts."""


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
        """Return the text that a filter is compared with."""
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
    """The table of this process, for repeated queries, which keep the CPU accounting on."""

    def __init__(self) -> None:
        self.shares = Shares()

    def table(
        self, filter: str = "", sort: str = "share", most: int = DEFAULT_ROWS, grouped: bool = False
    ) -> dict[str, Any]:
        """Return a headline, counts of all dhagas, and the first ``most`` rows that contain ``filter``.

        Deadlocked dhagas come first in every order. ``grouped``: also return the size of each group of rows with one
        state and reason, and choose rows so that a large group does not push a small one out. From: any OS thread.
        Raises: ValueError for an unknown sort key, ProbeUnavailable.
        """
        if sort not in SORTS:
            raise ValueError(f"rows are sorted by {', '.join(SORTS)}, not by {sort!r}")
        measured = bool(self.shares.run_times)
        rows = list(all_rows(self.shares.now()))
        matching = [row for row in rows if filter.lower() in row.text()]
        circles = cycles(rows)
        deadlocked = {waiter for circle in circles for waiter in circle}
        matching.sort(key=lambda row: (row.waiter not in deadlocked, SORTS[sort](row)))
        reasons = Counter(stem(row.reason) for row in rows if row.reason)
        states = Counter(row.state for row in rows)
        groups = Counter(map(group_of, matching)) if grouped else Counter()
        shown = rows_of_all_groups(matching, deadlocked, max(0, most)) if grouped else matching[: max(0, most)]
        return {
            "pid": os.getpid(),
            "headline": headline(Counter(kind_of(row.waiter) for row in rows), states),
            "time": time.time(),
            "total": len(rows),
            "matching": len(matching),
            "measured": measured,
            "states": states,
            "reasons": reasons.most_common(TOP_REASONS),
            "cycles": [[waiter.name for waiter in circle] for circle in circles],
            "groups": [[*group, size] for group, size in groups.items()],
            "rows": [all_columns(row) for row in shown],
        }


def all_rows(shares: dict[int, float]) -> Iterator[DhagaRow]:
    """Yield the rows of each scheduler, then those of plain OS threads parked on one of Dhaga's objects."""
    for scheduler in sorted(schedulers, key=lambda each: each.name):
        for waiter in waiters_of(scheduler):
            yield row_of(waiter, scheduler.name, shares)
    for thread in members(os_threads):
        if thread.parked:
            yield row_of(thread, "", shares)


def row_of(waiter: Any, scheduler: str, shares: dict[int, float]) -> DhagaRow:
    reason = waiter.park_reason if waiter.parked else ""
    ident = waiter.ident
    return DhagaRow(
        waiter, ident, waiter.name, state_of(waiter), reason, waiter.parked_since, scheduler, shares.get(ident, 0.0)
    )


def headline(kinds: Mapping[str, int], states: Mapping[str, int]) -> str:
    """Return the counts by kind and by state: ``44 dhagas, main code: 44 waiting, 1 running``."""
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


def group_of(row: DhagaRow) -> tuple[str, str]:
    """Return the key of a row's group: the state, and the reason without its number."""
    return row.state, stem(row.reason)


def rows_of_all_groups(rows: list[DhagaRow], pinned: Container[Waiter], most: int) -> list[DhagaRow]:
    """Return at most ``most`` rows in their order: first of all those pinned and the first ones of each group."""
    sizes: Counter[tuple[str, str]] = Counter()
    first: list[int] = []
    others: list[int] = []
    for place, row in enumerate(rows):
        group = group_of(row)
        sizes[group] += 1
        (first if row.waiter in pinned or sizes[group] <= ROWS_OF_GROUP else others).append(place)
    return [rows[place] for place in sorted([*first, *others][:most])]


def cycles(rows: list[DhagaRow]) -> list[list[Waiter]]:
    """Return the cycles of the wait-for graph."""
    return wait_graph.cycles([row.waiter for row in rows if row.reason and wait_graph.holders(row.waiter)])


def all_columns(row: DhagaRow) -> dict[str, Any]:
    """Return the row with its expensive columns, ready for JSON."""
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
