"""Growing pauses between two polls of what no event reports."""

from __future__ import annotations

from collections.abc import Iterator


def backoff(first: float, longest: float) -> Iterator[float]:
    """Yield pauses in seconds, without end: ``first``, then twice the former one, ``longest`` at most."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, longest)
