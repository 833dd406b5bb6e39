"""How far a figure is from its target: a place on one scale for all claims, and words.

The scale is that of the square root of a logarithm: 3 % are seen beside the target as well as 5 times.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.tables.number_format import printed
from benchmarks.tables.outcome import Claim

WIDEST = 32.0
"""Times the target, on either side: what is further away is drawn there."""

TICKS = (2, 8)
"""Times the target that are marked on the scale."""

SAME = 0.005  # as a share: what is nearer than half a percent is on the target


@dataclass(frozen=True)
class Distance:
    """Where the worst round, the median and the best are, from -1 to 1 (above 0 is better than asked), and in words."""

    low: float
    value: float
    high: float
    words: str


def place(times: float, widest: float = WIDEST) -> float:
    """Return the place of what is so many times as good as asked."""
    if times <= 0 or math.isinf(times):
        return math.copysign(1.0, times - 1)
    share = math.log(times) / math.log(widest)
    return math.copysign(min(1.0, math.sqrt(abs(share))), share)


def _times(claim: Claim, value: float) -> float:
    """Return how many times as good as asked a value is; beside a target of nothing, endlessly better or worse."""
    if claim.bound == value:
        return 1.0
    ours, asked = (value, claim.bound) if claim.at_least else (claim.bound, value)
    return ours / asked if asked > 0 else math.inf


def distance(claim: Claim) -> Distance:
    """Return how far a claim is from its target."""
    places = sorted(place(_times(claim, sample)) for sample in claim.samples)
    return Distance(places[0], place(_times(claim, claim.value)), places[-1], words(claim))


def words(claim: Claim) -> str:
    """Say how far above or below its target a figure is."""
    value, bound = claim.value, claim.bound
    if not bound:
        return "on target" if value == bound else f"above {claim.target.split(' ')[1]}"
    ratio = value / bound
    if abs(ratio - 1) < SAME:
        return "on target"
    if ratio >= 2:
        return f"{printed(ratio)}x the target"
    side = ("above" if claim.at_least else "over") if ratio > 1 else ("short" if claim.at_least else "below")
    return f"{100 * abs(ratio - 1):.0f} % {side}"


def ticks() -> Sequence[tuple[str, float]]:
    """Return the marks of the scale, and where they are."""
    return [(f"{each}x", side * place(each)) for side in (-1, 1) for each in TICKS]
