"""The history line of ``top``: runnable and parked dhagas and the lag of the last minute, in block characters."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rich.text import Text

from ..debug._dump import duration

SHOWN_SECONDS = 60.0
"""Time that the line covers."""

MOST_CELLS = 20
"""Greatest width of a curve."""

BLOCKS = "▁▂▃▄▅▆▇█"
LEAST_TOPS = {"runnable": 8.0, "parked": 8.0, "lag": 0.1}
"""A curve is full at its largest value, but at least at this; the lag in seconds."""

Sample = Sequence[float]


class HistoryLine:
    """The samples of the last minute: time, runnable, parked, lag."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque()

    @property
    def last(self) -> float:
        """The time of the last sample, from which to ask for more."""
        return self.samples[-1][0] if self.samples else 0.0

    def extend(self, samples: Iterable[Sample]) -> None:
        """Append new samples, and drop those older than a minute."""
        self.samples.extend(samples)
        while self.samples and self.samples[0][0] <= self.last - SHOWN_SECONDS:
            self.samples.popleft()

    def draw(self, width: int) -> Text:
        """Return the line for a terminal of this width; curves become shorter in a narrow one."""
        columns = dict(zip(LEAST_TOPS, list(zip(*self.samples, strict=True))[1:], strict=True)) if self.samples else {}
        said = {name: self.words(name, columns.get(name, ())) for name in LEAST_TOPS}
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
        """Return the last value; of the lag also the largest."""
        if not values:
            return "…"
        if name != "lag":
            return f"{values[-1]:,.0f}"
        return f"{duration(values[-1])}; max {duration(max(values))}"

    def curve(self, name: str, values: Sequence[float], cells: int) -> str:
        """Return one block a cell, of the largest value in its part of the minute; blank before the first sample."""
        tallest: list[float | None] = [None] * cells
        for sample, value in zip(self.samples, values, strict=False):
            age = max(0.0, self.last - sample[0])
            cell = max(0, cells - 1 - int(age / SHOWN_SECONDS * cells))
            tallest[cell] = max(value, tallest[cell] or 0.0)
        top = max([LEAST_TOPS[name], *values])
        return "".join(" " if each is None else block(each / top) for each in tallest)


def block(share: float) -> str:
    """Return the block character of a height, 0 to 1; anything above 0 is above the lowest one."""
    return BLOCKS[0 if share <= 0 else min(len(BLOCKS) - 1, 1 + int(share * (len(BLOCKS) - 2)))]
