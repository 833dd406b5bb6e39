"""The line of ``top`` that tells how much of a core each scheduler's OS thread uses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from ..debug._remote.client import printable


class ThreadShares:
    """The CPU time of each scheduler's OS thread between the last two answers, as a share of the time between them."""

    def __init__(self) -> None:
        self.time = -math.inf
        self.seconds: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    def update(self, answer: Mapping[str, Any]) -> None:
        """Compare a new answer with the one before. A thread that has just begun, or is not measured, has no share."""
        now: float = answer["time"]
        seconds = {name: used for name, used in answer["threads"] if used is not None}
        if now > self.time:
            known = seconds.keys() & self.seconds.keys()
            past = now - self.time
            self.shares = {name: (seconds[name] - self.seconds[name]) / past for name in sorted(known)}
            self.time, self.seconds = now, seconds

    def draw(self) -> list[Text]:
        """Return the line, the busiest thread first; empty if there is only one thread."""
        if len(self.shares) < 2:
            return []
        busiest = sorted(self.shares.items(), key=lambda each: -each[1])
        shares = ", ".join(f"{name} {max(0.0, share):.0%}" for name, share in busiest)
        return [Text(printable(f"cpu of OS threads: {shares}"))]
