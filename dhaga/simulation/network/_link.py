"""``Link``: the latency, the losses and other properties of the wires from one host to another.

Hosts without a link of their own share a default link, which is drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from .._base.ranges import Range, check_share, is_number, range_of

RETRANSMISSION = 0.2
"""The seconds before a stream sends a lost segment again: Linux's TCP_RTO_MIN. Each further try doubles the pause."""

LONGEST_RETRANSMISSION = 120.0
"""The longest pause between two tries, in seconds: Linux's TCP_RTO_MAX."""

GIVEN_UP_AFTER = 924.6
"""The seconds without an answer until a stream fails: 15 tries, as with Linux's tcp_retries2."""

SHARES = ("loss", "duplicates", "reordered", "fragments")


@dataclass(frozen=True)
class Link:
    """The properties of the wires from one host to another.

    ``latency``: seconds, a number or a range (lowest, highest) to draw from. ``bandwidth``: bytes a second; None: no
    limit. ``loss``: the share of lost packets, which streams send again. ``duplicates``: the share of datagrams that
    arrive twice. ``reordered``: the share of datagrams that later datagrams can overtake. ``fragments``: the share of
    stream segments that arrive in two parts. Raises: TypeError, ValueError.
    """

    latency: float | Range = (0.0005, 0.005)
    bandwidth: float | None = None
    loss: float = 0.0
    duplicates: float = 0.0
    reordered: float = 0.0
    fragments: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "latency", range_of("latency", self.latency))
        if self.bandwidth is not None and not (is_number(self.bandwidth) and self.bandwidth > 0):
            raise ValueError(f"bandwidth is a number of bytes a second above 0, or None, and not {self.bandwidth!r}")
        for name in SHARES:
            check_share(name, getattr(self, name))

    def draw_latency(self, draw: random.Random) -> float:
        low, high = self.latency  # type: ignore[misc]
        return low if low == high else low + (high - low) * draw.random()


def check_settings(settings: dict[str, Any], what: str = "a link") -> dict[str, Any]:
    """Return the settings of a link unchanged. Raises: ValueError for unknown names."""
    known = [field.name for field in fields(Link)]
    if unknown := settings.keys() - set(known):
        raise ValueError(f"{what} has {', '.join(known)}, and not {', '.join(map(repr, sorted(unknown)))}")
    return settings


def drawn_link(draw: random.Random) -> Link:
    """Draw the default link of a run: its latency or range of latencies, and its share of split segments."""
    low = 10 ** draw.uniform(-4, -2)
    return Link(latency=(low, low * draw.choice((1.0, 2.0, 10.0))), fragments=draw.choice((0.0, 0.0, 0.05, 0.3)))


def drawn_local_link(draw: random.Random) -> Link:
    """Draw the link from a host to itself."""
    return Link(latency=(0.00001, draw.choice((0.00001, 0.0001, 0.001))), fragments=draw.choice((0.0, 0.0, 0.05)))


def drawn_tick(draw: random.Random) -> float:
    """Draw the tick of a run, in seconds. Arrivals within one tick coincide, so that their readers compete."""
    return draw.choice((0.00001, 0.0001, 0.001, 0.005))


def retries() -> Iterator[float]:
    """Yield the pause before each retransmission, in seconds."""
    pause = RETRANSMISSION
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_RETRANSMISSION)
