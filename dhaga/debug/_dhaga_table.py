"""The table of all dhagas, like ``ps`` for processes. The table can be filtered and sorted, and shows shares of time.

An OS thread of the debugging tools builds the table, so that no scheduler is delayed. Each row is a sample, and two
rows may be from slightly different times. Cheap columns are read for all dhagas, because all dhagas are counted,
filtered and sorted. Expensive columns (holders, targets of waits) are read only for the rows that are shown.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

from .._kernel.process.preemption_watcher import cpu_seconds
from .._kernel.run.attachment import schedulers
from .._kernel.run.scheduler import Scheduler
from .._kernel.stacks import stacks_of_threads
from .._kernel.wait import wait_graph
from .._kernel.wait.waiter import Waiter
from ._block_cause import advice_for, native_id_of, waits_for_futex
from ._cpu_share import Share, Shares
from ._row_groups import Line, RowGroup, columns_of_group, into_groups
from ._snapshot import kind_of, waiters_of, waiting_threads
from ._table_row import DhagaRow, all_columns, row_of, stem
from ._watchdog import running_on

DEFAULT_ROWS = 200
"""Default of the maximum number of rows."""

TOP_REASONS = 8
"""Maximum number of reasons that are listed, with counts. Reasons are compared without trailing numbers."""


SORTS: dict[str, Callable[[DhagaRow], Any]] = {
    "held": lambda row: (-round(row.share.held, 2), row.state == "WAITING", row.ident),
    "share": lambda row: (-round(row.share.cpu or 0.0, 2), row.state == "WAITING", row.ident),
    "waited": lambda row: (row.state != "WAITING", row.since, row.ident),
    "name": lambda row: (row.name, row.ident),
    "state": lambda row: (row.state, row.reason, row.ident),
    "reason": lambda row: (not row.reason, row.reason, row.ident),
    "age": lambda row: row.ident,
}
"""The functions that return a row's sort key. The largest share, the longest wait and the oldest dhaga come first.

``share`` is the CPU share. Shares are rounded to whole percents, so that rows of 0 % keep their places.
"""


class DhagaTable:
    """The table of this process, for repeated queries. While queries arrive, the shares of the time are measured."""

    def __init__(self) -> None:
        self.shares = Shares()

    def table(
        self,
        filter: str = "",
        sort: str = "held",
        most: int = DEFAULT_ROWS,
        grouped: bool = False,
        opened: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return a headline, counts of all dhagas, and the first ``most`` rows that contain ``filter``.

        Deadlocked dhagas that match come first in every order, and all of them are returned, even if there are more
        than ``most``. ``grouped``: whether rows with the same state and reason become one row of kind ``group``.
        ``opened``: the keys of groups to unfold. The row of such a group is followed by at most ``most`` rows of its
        dhagas, each with the key ``member``. Keys of the result: ``hidden`` is the number of matching dhagas that no
        row includes. ``threads`` contains each scheduler's name with the CPU seconds of its OS thread so far (None if
        unknown). ``blocks`` contains a line for each dhaga that blocks its OS thread. From: any OS thread.
        Raises: ValueError for an unknown sort key, ProbeUnavailable.
        """
        if sort not in SORTS:
            raise ValueError(f"rows are sorted by {', '.join(SORTS)}, not by {sort!r}")
        most = max(0, most)
        measured = bool(self.shares.run_times)
        rows = list(all_rows(self.shares.now()))
        matching = [row for row in rows if filter.lower() in row.text()]
        circles = cycles(rows)
        deadlocked = {waiter for circle in circles for waiter in circle}
        matching.sort(key=lambda row: (row.waiter not in deadlocked, SORTS[sort](row)))
        lines: list[Line] = lines_of(matching, deadlocked, sort) if grouped else [*matching]
        reasons = Counter(stem(row.reason) for row in rows if row.reason)
        states = Counter(row.state for row in rows)
        most = max(most, sum(row.waiter in deadlocked for row in matching))
        return {
            "pid": os.getpid(),
            "headline": headline(Counter(kind_of(row.waiter) for row in rows), states),
            "time": time.time(),
            "total": len(rows),
            "matching": len(matching),
            "hidden": sum(len(line.rows) if isinstance(line, RowGroup) else 1 for line in lines[most:]),
            "measured": measured,
            "states": states,
            "reasons": reasons.most_common(TOP_REASONS),
            "cycles": [[waiter.name for waiter in circle] for circle in circles],
            "cycle_idents": [[waiter.ident for waiter in circle] for circle in circles],
            "blocks": blocks(rows),
            "threads": [[each.name, cpu_seconds(each, None)] for each in in_order()],
            "rows": [columns for line in lines[:most] for columns in all_columns_of(line, opened, most)],
        }


def lines_of(rows: list[DhagaRow], deadlocked: Container[Waiter], sort: str) -> list[Line]:
    """Return the table's lines in the order of ``rows``: single rows, and groups, each at the place of its first row.
    In an order by share, a group is placed by the sum of its rows' shares.
    """
    lines = into_groups(rows, deadlocked)
    if sort in ("held", "share"):
        lines.sort(
            key=lambda line: (
                isinstance(line, RowGroup) or line.waiter not in deadlocked,
                -round(line.share.held if sort == "held" else line.share.cpu or 0.0, 2),
            )
        )
    return lines


def blocks(rows: list[DhagaRow]) -> list[list[Any]]:
    """Return the ident and name of each dhaga or main code that blocks its OS thread, with the cause and the cure."""
    found = [row for row in rows if row.share.blocks]
    stacks = stacks_of_threads() if found else {}
    lines = []
    for row in found:
        scheduler = row.waiter.scheduler
        stack = stacks.get(scheduler.thread_ident, ()) if running_on(scheduler) is row.waiter else ()
        advice = advice_for(stack, 0.0, waits_for_futex(native_id_of(scheduler)) if stack else False)
        place = f" (at {stack[-1]})" if stack else ""
        used = f"holds {row.scheduler} for {row.share.held:.0%} of the time, and computes for {row.share.cpu or 0:.0%}"
        lines.append([row.ident, row.name, f"{used}: {advice}{place}"])
    return lines


def all_columns_of(line: Line, opened: Container[str], most: int) -> Iterator[dict[str, Any]]:
    """Yield the columns of a row or a group. After the columns of an open group, yield the columns of its members."""
    if not isinstance(line, RowGroup):
        yield all_columns(line)
        return
    yield columns_of_group(line) | {"open": line.key in opened}
    if line.key in opened:
        for row in line.rows[:most]:
            yield all_columns(row) | {"member": True}


def in_order() -> list[Scheduler]:
    """Return all schedulers, sorted by name."""
    return sorted(schedulers, key=lambda each: each.name)


def all_rows(shares: Mapping[int, Share]) -> Iterator[DhagaRow]:
    """Yield the rows of each scheduler, then the rows of plain OS threads that are parked on an object of Dhaga."""
    for scheduler in in_order():
        for waiter in waiters_of(scheduler):
            yield row_of(waiter, scheduler.name, shares)
    for thread in waiting_threads():
        yield row_of(thread, "", shares)


def headline(kinds: Mapping[str, int], states: Mapping[str, int]) -> str:
    """Return the counts by kind and state, such as ``45 dhagas, all waiting`` or ``9 dhagas: 8 waiting, 1 running``."""
    dhagas = kinds.get("dhaga", 0)
    parts = [counted(dhagas, "dhaga")] if dhagas or not any(kinds.values()) else []
    if main := kinds.get("main code"):
        parts.append("main code" if main == 1 else f"main code of {main} threads")
    if threads := kinds.get("OS thread"):
        parts.append(counted(threads, "OS thread"))
    *others, last = parts
    who = f"{', '.join(others)} and {last}" if others else last
    if len(states) == 1 and sum(states.values()) > 1:
        return f"{who}, all {next(iter(states)).lower()}"
    in_states = [f"{count:,} {state.lower()}" for state, count in sorted(states.items(), key=lambda each: -each[1])]
    return ": ".join(filter(None, (who, ", ".join(in_states))))


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cycles(rows: list[DhagaRow]) -> list[list[Waiter]]:
    """Return the cycles of the wait-for graph."""
    return wait_graph.cycles([row.waiter for row in rows if row.reason and wait_graph.holders(row.waiter)])
