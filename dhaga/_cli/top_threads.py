"""The line of ``top`` that shows how much of a core each scheduler's OS thread uses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ..debug._remote.client import printable


class ThreadShares:
    """The CPU time of each scheduler's OS thread between the last two answers, as a share of the elapsed time.

    Threads of one name are added up. The keys are the names, each with the number of its threads.
    """

    def __init__(self) -> None:
        self.time = -math.inf
        self.seconds: dict[tuple[str, int], float] = {}
        self.shares: dict[tuple[str, int], float] = {}

    def update(self, answer: Mapping[str, Any]) -> None:
        """Compare a new answer with the previous one. A thread that is new, or not measured, has no share."""
        now: float = answer["time"]
        measured = [(name, used) for name, used in answer["threads"] if used is not None]
        counts = Counter(name for name, _ in measured)
        seconds: dict[tuple[str, int], float] = {}
        for name, used in measured:
            key = name, counts[name]
            seconds[key] = seconds.get(key, 0.0) + used
        if now > self.time:
            known = seconds.keys() & self.seconds.keys()
            past = now - self.time
            self.shares = {key: (seconds[key] - self.seconds[key]) / past for key in sorted(known)}
            self.time, self.seconds = now, seconds

    def draw(self) -> list[Text]:
        """Return the line, with the busiest thread first; return no line if there is only one thread."""
        if sum(count for _, count in self.shares) < 2:
            return []
        busiest = sorted(self.shares.items(), key=lambda each: -each[1])
        shares = ", ".join(
            f"{f'{count} × ' if count > 1 else ''}{name} {max(0.0, share):.0%}" for (name, count), share in busiest
        )
        return [Text(printable(f"cpu of OS threads: {shares}"))]
