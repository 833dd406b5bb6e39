"""The history lines of ``top``: the last minute as curves of block characters.

The first line shows the numbers of runnable and parked dhagas, and the lag: the longest delay in a run queue. A second
line shows preemptions if there were any.
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
"""Number of seconds that the lines cover."""

MOST_CELLS = 20
"""Maximum width of a curve, in characters."""

BLOCKS = "▁▂▃▄▅▆▇█"
LEAST_TOPS = {"runnable": 8.0, "parked": 8.0, "lag": 0.1, "preempted": 8.0}
"""Minimum value at the top of each curve: a number of dhagas, the lag in seconds, or preemptions per second."""

NAMES = tuple(LEAST_TOPS)
"""Names of the curves, in the order of their values in a sample."""

Sample = Sequence[float]


class HistoryLines:
    """The samples of the last minute. Each sample contains its time and the values that ``NAMES`` lists."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque()
        self.places: Sequence[Sequence[Any]] = ()  # the program's lines with the most preemptions, and their counts

    @property
    def last(self) -> float:
        """The time of the last sample. The next query requests only later samples."""
        return self.samples[-1][0] if self.samples else 0.0

    def extend(self, samples: Iterable[Sample], places: Sequence[Sequence[Any]] = ()) -> None:
        """Append new samples, and remove samples older than a minute."""
        self.samples.extend(samples)
        self.places = places
        while self.samples and self.samples[0][0] <= self.last - SHOWN_SECONDS:
            self.samples.popleft()

    def draw(self, width: int) -> list[Text]:
        """Return the lines for a terminal of this width. The curves are shorter in a narrow terminal."""
        columns = dict(zip(NAMES, list(zip(*self.samples, strict=True))[1:], strict=True)) if self.samples else {}
        lines = [self.line(NAMES[:3], columns, width)]
        if any(columns.get("preempted", ())):
            lines.append(self.line(NAMES[3:], columns, width))
            if self.places:
                lines[-1].append(f"most at {short_place(self.places[0][0])}", "dim")
        return lines

    def line(self, names: Sequence[str], columns: Mapping[str, Sequence[float]], width: int) -> Text:
        """Return one line with several curves."""
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
        """Format the last value of a curve; for the lag and preemptions, also the largest value."""
        if not values:
            return "…"
        if name == "lag":
            return f"{duration(values[-1])}; max {duration(max(values))}"
        if name == "preempted":
            return f"{values[-1]:,.0f}/s; max {max(values):,.0f}/s"
        return f"{values[-1]:,.0f}"

    def curve(self, name: str, values: Sequence[float], cells: int) -> str:
        """Return a curve of ``cells`` characters. Each character shows the largest value in its part of the minute."""
        tallest: list[float | None] = [None] * cells
        for sample, value in zip(self.samples, values, strict=False):
            age = max(0.0, self.last - sample[0])
            cell = max(0, cells - 1 - int(age / SHOWN_SECONDS * cells))
            tallest[cell] = max(value, tallest[cell] or 0.0)
        top = max([LEAST_TOPS[name], *values])
        return "".join(" " if each is None else block(each / top) for each in tallest)


def short_place(place: str) -> str:
    """Return a place in the program without the file's folder, such as ``shop.py:12 in report``."""
    file, colon, rest = place.rpartition(".py:")
    return printable(f"{os.path.basename(file)}{colon}{rest}")


def block(share: float) -> str:
    """Return the block character for a height from 0 to 1. Only 0 has the lowest block."""
    return BLOCKS[0 if share <= 0 else min(len(BLOCKS) - 1, 1 + int(share * (len(BLOCKS) - 2)))]
