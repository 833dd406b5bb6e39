"""Renders the inspector's answers as the table of ``top``, with the library rich."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ..debug._dump import duration
from ..debug._remote.client import printable

COLOURS = {"RUNNING": "green", "RUNNABLE": "yellow", "WAITING": "", "NEW": "cyan", "DONE": "dim"}
Row = Mapping[str, Any]

NARROW = 100
"""Width of a terminal below which the reason and the target of a wait share one column of the table."""

HEADS = {"age": "ident", "name": "name", "state": "state", "held": "held", "share": "cpu"}
HEADS |= {"waited": "waited", "reason": "reason"}
"""The head of each column. The keys are the names of the sort orders by these columns."""


def table_of(answer: Row, rows: Sequence[Row], sort: str, width: int, marked: Row | None = None) -> Table:
    """Return a table of some rows of an answer. ``marked``: the row to highlight.

    The table has a column for the scheduler only if the rows of the answer belong to several schedulers.
    """
    several = len({row["scheduler"] for row in answer["rows"]}) > 1
    heads = {each: f"{head} ▾" if each == sort else head for each, head in HEADS.items()}
    table = Table(box=None, expand=True, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column(heads["age"], justify="right", no_wrap=True)
    table.add_column(heads["name"], no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column(heads["state"], no_wrap=True)
    table.add_column(heads["held"], justify="right", no_wrap=True)
    table.add_column(heads["share"], justify="right", no_wrap=True)
    table.add_column(heads["waited"], justify="right", no_wrap=True)
    table.add_column(heads["reason"], no_wrap=True, overflow="ellipsis", ratio=4 if width < NARROW else 3)
    if width >= NARROW:
        table.add_column("on", no_wrap=True, overflow="ellipsis", ratio=5)
    if several:
        table.add_column("scheduler", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows:
        drawn = cells(row, answer["measured"], width)
        table.add_row(*drawn[: len(table.columns)], style="reverse" if row is marked else "")
    return table


def cells(row: Row, measured: bool, width: int) -> list[Text]:
    held, cpu = (percent(row[column]) if measured else "…" for column in ("held", "share"))
    seconds = "" if row["seconds"] is None else duration(row["seconds"])
    wait = [row["reason"], wait_target(row)]
    if width < NARROW:
        wait = [" ".join(filter(None, wait))]
    plain = [ident_of(row), name_of(row), row["state"], held, cpu, seconds, *wait, row["scheduler"]]
    drawn = [Text(printable(cell)) for cell in plain]
    drawn[2].stylize(COLOURS.get(row["state"], ""))
    return drawn


def percent(share: float | None) -> str:
    """Format a share of the time as a percentage; return "" if the platform does not report the share."""
    return "" if share is None else f"{share:.0%}"


def ident_of(row: Row) -> str:
    """Return the ident of a dhaga or the symbol of a group. Return "" for main code and OS threads."""
    if row["kind"] == "group":
        return "▾" if row["open"] else "▸"
    return str(row["ident"]) if row["kind"] == "dhaga" else ""


def name_of(row: Row) -> str:
    """Return the name to show. A group's name begins with the number of members; a member's name is indented."""
    if row["kind"] == "group":
        return f"{row['count']:,} × {row['name']}"
    return f"  {row['name']}" if row.get("member") else str(row["name"])


def wait_target(row: Row) -> str:
    """Return the target of a row's wait, followed by its holders unless the target's text already names them."""
    target, holders = row["waits_on"] or "", ", ".join(row["held_by"])
    if not holders or f"held by {holders}" in target:
        return target
    return f"{target}, held by {holders}" if target else f"held by {holders}"


def summary(answer: Row, filter: str) -> list[Text]:
    """Return the lines above the table: the headline, counts by reason, deadlocks, blocking dhagas, and the filter."""
    lines = [Text.assemble((answer["headline"], "bold"), (f"  process {answer['pid']}", "dim"))]
    if answer["reasons"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in answer["reasons"])
        lines.append(Text(printable(f"wait for {reasons}")))
    for circle in answer["cycles"]:
        lines.append(Text(printable(f"deadlock: {' waits for '.join([*circle, circle[0]])}"), style="bold red"))
    lines += [Text(printable(f"{name} {text}"), style="bold yellow") for _, name, text in answer["blocks"]]
    if filter:
        lines.append(Text(printable(f"{answer['matching']:,} with {filter!r} in it"), style="dim"))
    return lines


def hidden(answer: Row) -> list[Text]:
    """Return the line below an incomplete table: the number of missing rows."""
    return [Text(f"and {answer['hidden']:,} more", style="dim")] if answer["hidden"] else []
