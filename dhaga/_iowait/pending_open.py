"""Opening in an OS thread: the file of a caller that is cancelled meanwhile is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .._workers.offload import OffloadPool

__all__ = ["offload_open"]

Opened = TypeVar("Opened")


def offload_open(pool: OffloadPool, make: Callable[[], Opened], close: Callable[[Opened], object]) -> Opened:
    """Return what ``make()`` opens in a thread of the pool.

    Parks: ``offload``, by the name of the pool. A cancel ends only the caller's wait; ``close(opened)`` follows.
    """
    pending = PendingOpen(make, close)
    try:
        return pool.offload(pending.open)
    except BaseException:
        pending.close_after_both()
        raise


class PendingOpen(Generic[Opened]):
    """An open under way in the pool. It has up to two ends: the file is open, and its caller is cancelled."""

    def __init__(self, make: Callable[[], Opened], close: Callable[[Opened], object]) -> None:
        self.make = make
        self.close = close
        self.opened: list[Opened] = []
        self.ends: list[None] = []

    def open(self) -> Opened:
        """Open, and close again if the caller has gone. From: a thread of the pool."""
        self.opened.append(self.make())
        self.close_after_both()
        return self.opened[0]

    def close_after_both(self) -> None:
        """Note an end, and close after the second one. From: either thread."""
        # An append is atomic: of two threads at least the later one finds both ends.
        self.ends.append(None)
        if len(self.ends) == 2:
            self.close(self.opened[0])
