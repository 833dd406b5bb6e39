"""The history lines of ``top``: the last minute in block characters.

Runnable and parked dhagas and the lag; a second line for preemptions, if there were any.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from ..debug._dump import duration
from ..debug._remote.client import printable

SHOWN_SECONDS = 60.0
"""Time that the line covers."""

MOST_CELLS = 20
"""Greatest width of a curve."""

BLOCKS = "▁▂▃▄▅▆▇█"
LEAST_TOPS = {"runnable": 8.0, "parked": 8.0, "lag": 0.1, "preempted": 8.0}
"""The lowest value at which a curve may be full: the lag in seconds, preemptions per second."""

NAMES = tuple(LEAST_TOPS)
"""The names of the curves, in the order of a sample."""

Sample = Sequence[float]


class HistoryLines:
    """The samples of the last minute: time, runnable, parked, lag, preempted."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque()
        self.places: Sequence[Sequence[Any]] = ()  # the lines at which most turns were preempted, and how many

    @property
    def last(self) -> float:
        """The time of the last sample, from which to ask for more."""
        return self.samples[-1][0] if self.samples else 0.0

    def extend(self, samples: Iterable[Sample], places: Sequence[Sequence[Any]] = ()) -> None:
        """Append new samples, and drop those older than a minute."""
        self.samples.extend(samples)
        self.places = places
        while self.samples and self.samples[0][0] <= self.last - SHOWN_SECONDS:
            self.samples.popleft()

    def draw(self, width: int) -> list[Text]:
        """Return the lines for a terminal of this width; curves become shorter in a narrow one."""
        columns = dict(zip(NAMES, list(zip(*self.samples, strict=True))[1:], strict=True)) if self.samples else {}
        lines = [self.line(NAMES[:3], columns, width)]
        if any(columns.get("preempted", ())):
            lines.append(self.line(NAMES[3:], columns, width))
            if self.places:
                lines[-1].append(f"most at {short_place(self.places[0][0])}", "dim")
        return lines

    def line(self, names: Sequence[str], columns: Mapping[str, Sequence[float]], width: int) -> Text:
        """Return some of the curves beside each other."""
        said = {name: self.words(name, columns.get(name, ())) for name in names}
        room = width - sum(len(name) + len(words) + 4 for name, words in said.items())
        cells = min(MOST_CELLS, room // len(said))
        line = Text(no_wrap=True, overflow="ellipsis")
        for name, words in said.items():
            line.append(f"{name} ", "dim")
            if cells > 0:
                line.append(f"{self.curve(name, columns.get(name, ()), cells)} ")
            line.append(f"{words}  ")
        return line

    def words(self, name: str, values: Sequence[float]) -> str:
        """Return the last value of a curve; for the lag and preemptions, also the largest value."""
        if not values:
            return "…"
        if name == "lag":
            return f"{duration(values[-1])}; max {duration(max(values))}"
        if name == "preempted":
            return f"{values[-1]:,.0f}/s; max {max(values):,.0f}/s"
        return f"{values[-1]:,.0f}"

    def curve(self, name: str, values: Sequence[float], cells: int) -> str:
        """Return a block for each cell: the largest value in that part of the minute; blank before the first sample."""
        tallest: list[float | None] = [None] * cells
        for sample, value in zip(self.samples, values, strict=False):
            age = max(0.0, self.last - sample[0])
            cell = max(0, cells - 1 - int(age / SHOWN_SECONDS * cells))
            tallest[cell] = max(value, tallest[cell] or 0.0)
        top = max([LEAST_TOPS[name], *values])
        return "".join(" " if each is None else block(each / top) for each in tallest)


def short_place(place: str) -> str:
    """Return a line of the program without its folder: ``shop.py:12 in report``."""
    file, colon, rest = place.rpartition(".py:")
    return printable(f"{os.path.basename(file)}{colon}{rest}")


def block(share: float) -> str:
    """Return the block character of a height, 0 to 1; anything above 0 is above the lowest one."""
    return BLOCKS[0 if share <= 0 else min(len(BLOCKS) - 1, 1 + int(share * (len(BLOCKS) - 2)))]
