"""Growing pauses between polls, for changes that no event reports."""

from __future__ import annotations

from collections.abc import Iterator


def backoff(first: float, longest: float) -> Iterator[float]:
    """Yield pauses in seconds without end: ``first``, then twice the previous pause, at most ``longest``."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, longest)
