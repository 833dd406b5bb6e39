"""The lines around the switches of a run, with one column for each member (a thread or an asyncio task)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby

from .._schedule.source_line import SourceLine

AROUND = 3
"""The number of lines shown before and after each switch."""

ROWS = 60
"""The maximum number of rows that are shown, the most recent ones."""

WIDTH = 116
"""The width of all columns together, in characters."""

NARROWEST = 12
"""The smallest width of a column, in characters."""

LONGEST = 100
"""The maximum number of characters of a line that are shown."""

Line = tuple[int, str, int]
"""A line that ran: the number of the member that ran it, the file, and the line number."""


def side_by_side(lines: Iterable[Line], names: Sequence[str], members_shown: AbstractSet[int]) -> str:
    """Return a text with the lines that these members ran around each switch; empty if fewer than two members ran."""
    seen = [line for line in lines if line[0] in members_shown]
    stretches = [list(group) for _, group in groupby(seen, key=lambda line: line[0])]
    shown = [cut(stretch, index, len(stretches)) for index, stretch in enumerate(stretches)]
    rows = [row for stretch in shown for row in stretch][-ROWS:]
    members = sorted({member for member, _ in rows})
    if len(members) < 2:
        return ""
    width = max(NARROWEST, WIDTH // len(members))
    head = "".join(names[member][: width - 2].ljust(width) for member in members).rstrip()
    # Each row has text in only one column. This text can extend over the columns to the right.
    return "\n".join([head, *(" " * (width * members.index(member)) + text[:LONGEST] for member, text in rows)])


def cut(stretch: list[Line], index: int, count: int) -> list[tuple[int, str]]:
    """Return the rows of a stretch (the lines between two switches), without lines in its middle."""
    first = stretch[:AROUND] if index else []
    last = stretch[-AROUND:] if index < count - 1 else []
    if len(stretch) <= len(first) + len(last):
        return [row(line) for line in stretch]
    return [*map(row, first), *([(stretch[0][0], "...")] if first and last else []), *map(row, last)]


def row(line: Line) -> tuple[int, str]:
    member, file, number = line
    return member, str(SourceLine(file, number))
