"""The wall clock of a host, which can differ from true time. True time is the simulation's clock."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._base.ranges import Range, is_number, range_of

if TYPE_CHECKING:
    from ._hosts import Host


@dataclass(frozen=True)
class WallClock:
    """The faults of a host's wall clock, each a number or a range (lowest, highest) to draw from.

    ``skew``: the seconds by which the clock is ahead of true time, or behind if below 0. ``drift``: the seconds that
    the clock gains in each second, for example 0.001. Raises: ValueError.
    """

    skew: float | Range = 0.0
    drift: float | Range = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "skew", range_of("skew", self.skew, least=None))
        object.__setattr__(self, "drift", range_of("drift", self.drift, least=None))
        if self.drift[0] <= -1:  # type: ignore[index]
            raise ValueError(f"drift is a number of seconds a second above -1, and not {self.drift!r}")

    def draw(self, draw: random.Random) -> tuple[float, float]:
        """Draw the skew and the drift of one host."""
        return draw.uniform(*self.skew), draw.uniform(*self.drift)  # type: ignore[misc]


def check_clock(settings: dict[str, Any]) -> WallClock:
    """Return a ``WallClock`` with some settings. Raises: ValueError for unknown names."""
    if unknown := sorted(settings.keys() - {"skew", "drift"}):
        raise ValueError(f"a clock has skew, drift, and not {', '.join(map(repr, unknown))}")
    return WallClock(**settings)


class HostClock:
    """The wall clock of one host, for ``time.time()`` and ``datetime``. Sleeps and ``time.monotonic()`` are exact."""

    def __init__(self, host: Host, faults: WallClock) -> None:
        self.host = host
        self.draw = random.Random(f"clock of {host.name} {host.network.seed}")
        self.begin(faults)

    def __repr__(self) -> str:
        return f"<HostClock of {self.host.name}, {self.ahead():+g} s>"

    def begin(self, faults: WallClock) -> None:
        self.since = self.host.network.clock.now
        self.skew, self.drift = faults.draw(self.draw)

    def ahead(self) -> float:
        """Return the seconds by which this clock is ahead of true time."""
        return self.skew + self.drift * (self.host.network.clock.now - self.since)

    def set(self, *, skew: float | Range | None = None, drift: float | Range | None = None) -> None:
        """Set the present skew of this clock, and the drift from now on. ``WallClock`` explains skew and drift.

        None leaves the skew or the drift unchanged. Raises: ValueError.
        """
        skew, drift = self.ahead() if skew is None else skew, self.drift if drift is None else drift
        self.begin(WallClock(skew, drift))
        self.host.network.run.tell("the simulation", f"sets the clock of {self.host.name} {self.skew:+g} s from true")

    def jump(self, seconds: float) -> None:
        """Set this clock forward, or backward if ``seconds`` is below 0, as a time server does. Raises: ValueError."""
        if not is_number(seconds) or not math.isfinite(seconds):
            raise ValueError(f"a clock jumps by a number of seconds, and not by {seconds!r}")
        self.skew += seconds
        self.host.network.run.tell("the simulation", f"sets the clock of {self.host.name} by {seconds:+g} s")
