"""Renders the rows of ``top`` with rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..debug._dump import duration
from ..debug._remote.client import printable

COLOURS = {"RUNNING": "green", "RUNNABLE": "yellow", "WAITING": "", "NEW": "cyan", "DONE": "dim"}
Row = Mapping[str, Any]


def table_of(answer: Row, rows: Sequence[Row], marked: Row | None = None) -> Table:
    """Return a table of some rows of an answer; ``marked``: the one to highlight.

    There is a column for the scheduler only if the rows of the answer have several schedulers.
    """
    several = len({row["scheduler"] for row in answer["rows"]}) > 1
    table = Table(box=None, expand=True, header_style="bold", pad_edge=False)
    table.add_column("ident", justify="right", no_wrap=True)
    table.add_column("name", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("state", no_wrap=True)
    table.add_column("cpu", justify="right", no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("reason", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("on", no_wrap=True, overflow="ellipsis", ratio=5)
    if several:
        table.add_column("scheduler", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows:
        table.add_row(*cells(row, answer["measured"])[: len(table.columns)], style="reverse" if row is marked else "")
    return table


def cells(row: Row, measured: bool) -> list[Text]:
    ident = str(row["ident"]) if row["kind"] == "dhaga" else ""  # an OS thread's ident means nothing to a user
    share = f"{row['share']:.0%}" if measured else "…"
    seconds = "" if row["seconds"] is None else duration(row["seconds"])
    plain = [ident, row["name"], row["state"], share, seconds, row["reason"], wait_target(row), row["scheduler"]]
    drawn = [Text(printable(cell)) for cell in plain]
    drawn[2].stylize(COLOURS.get(row["state"], ""))
    return drawn


def wait_target(row: Row) -> str:
    """Return the target of a row's wait, and its holders unless the text already names them."""
    target, holders = row["waits_on"] or "", ", ".join(row["held_by"])
    if not holders or f"held by {holders}" in target:
        return target
    return f"{target}, held by {holders}" if target else f"held by {holders}"


def summary(answer: Row, filter: str, sort: str) -> RenderableType:
    """Return the headline, the counts by reason, and the deadlocks."""
    lines = [Text.assemble((answer["headline"], "bold"), (f"  process {answer['pid']}", "dim"))]
    if answer["reasons"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in answer["reasons"])
        lines.append(Text(printable(f"wait for {reasons}")))
    for circle in answer["cycles"]:
        lines.append(Text(printable(f"deadlock: {' waits for '.join([*circle, circle[0]])}"), style="bold red"))
    matching = f", {answer['matching']} with {filter!r} in it" if filter else ""
    lines.append(Text(printable(f"by {sort}{matching}"), style="dim"))
    return Group(*lines)
