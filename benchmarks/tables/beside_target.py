"""The distance of a figure from its target: a place on one scale for all claims, and words.

The scale is the square root of a logarithm, so that both 3 % and 5 times the target are visible.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.tables.number_format import printed
from benchmarks.tables.outcome import Claim

WIDEST = 32.0
"""The ends of the scale, as a multiple and a fraction of the target. Figures beyond the ends are drawn at the ends."""

TICKS = (2, 8)
"""Multiples of the target that are marked on the scale."""

SAME = 0.005  # as a fraction: a figure within half a percent counts as equal to the target


@dataclass(frozen=True)
class Distance:
    """The places of the worst round, the median and the best round, from -1 to 1, and the distance in words.

    Places above 0 are better than the target.
    """

    low: float
    value: float
    high: float
    words: str


def place(times: float, widest: float = WIDEST) -> float:
    """Return the place of a figure that is ``times`` times as good as the target."""
    if times <= 0 or math.isinf(times):
        return math.copysign(1.0, times - 1)
    share = math.log(times) / math.log(widest)
    return math.copysign(min(1.0, math.sqrt(abs(share))), share)


def _times(claim: Claim, value: float) -> float:
    """Return how many times as good as the target a value is; for a target of 0, infinity or 0."""
    if claim.bound == value:
        return 1.0
    ours, asked = (value, claim.bound) if claim.at_least else (claim.bound, value)
    return ours / asked if asked > 0 else math.inf


def distance(claim: Claim) -> Distance:
    """Return the distance of a claim from its target."""
    places = sorted(place(_times(claim, sample)) for sample in claim.samples)
    return Distance(places[0], place(_times(claim, claim.value)), places[-1], words(claim))


def words(claim: Claim) -> str:
    """Return in words how far a figure is above or below its target."""
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
    """Return the marks of the scale, and their places."""
    return [(f"{each}x", side * place(each)) for side in (-1, 1) for each in TICKS]
