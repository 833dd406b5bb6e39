"""Tables: what ``top`` shows, drawn by rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .asked import printable
from .dump import duration

COLOURS = {"RUNNING": "green", "RUNNABLE": "yellow", "WAITING": "", "NEW": "cyan", "DONE": "dim"}
Row = Mapping[str, Any]


def table_of(rows: Sequence[Row], measured: bool, chosen: int | None = None) -> Table:
    """Draw rows; ``chosen``: the ident of the one that is marked."""
    table = Table(box=None, expand=True, header_style="bold", pad_edge=False)
    table.add_column("ident", justify="right", no_wrap=True)
    table.add_column("name", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("state", no_wrap=True)
    table.add_column("cpu", justify="right", no_wrap=True)
    table.add_column("waited", justify="right", no_wrap=True)
    table.add_column("reason", no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column("on", no_wrap=True, overflow="ellipsis", ratio=5)
    table.add_column("scheduler", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows:
        table.add_row(*cells(row, measured), style="reverse" if row["ident"] == chosen else "")
    return table


def cells(row: Row, measured: bool) -> list[Text]:
    ident = str(row["ident"]) if row["kind"] == "dhaga" else ""  # a thread's says nothing to people
    share = f"{row['share']:.0%}" if measured else "…"
    seconds = "" if row["seconds"] is None else duration(row["seconds"])
    plain = [ident, row["name"], row["state"], share, seconds, row["reason"], place(row), row["scheduler"]]
    drawn = [Text(printable(cell)) for cell in plain]
    drawn[2].stylize(COLOURS.get(row["state"], ""))
    return drawn


def place(row: Row) -> str:
    held = f", held by {', '.join(row['held_by'])}" if row["held_by"] else ""
    return f"{row['waits_on'] or ''}{held}"


def summary(answer: Row, filter: str, sort: str) -> RenderableType:
    """Draw what is counted: by state, by reason, and circles of waits."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(answer["states"].items()))
    lines = [Text(f"process {answer['pid']}: {answer['total']} in all, {states}", style="bold")]
    if answer["reasons"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in answer["reasons"])
        lines.append(Text(printable(f"wait for {reasons}")))
    for circle in answer["circles"]:
        lines.append(Text(printable(f"deadlock: {' waits for '.join([*circle, circle[0]])}"), style="bold red"))
    matching = f", {answer['matching']} with {filter!r} in it" if filter else ""
    lines.append(Text(printable(f"by {sort}{matching}"), style="dim"))
    return Group(*lines)
