"""A place where requests, or tasks, meet: each waits by short blocking calls until as many as expected are inside."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 30.0
"""Seconds after which one that is alone gives up."""

inside = most = 0


def meet(crowd: int, wait: Callable[[], object]) -> int:
    """Wait, by ``wait`` again and again, until ``crowd`` callers are in here at once. Returns: how many were at most.

    Where ``wait`` blocks, nobody else comes in.
    """
    global inside, most
    inside += 1
    most = max(most, inside)
    deadline = time.monotonic() + PATIENCE
    while most < crowd and time.monotonic() < deadline:
        wait()
    inside -= 1
    return most


def forget() -> None:
    """Begin anew."""
    global most
    most = inside
