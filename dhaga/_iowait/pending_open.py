"""The open of a file in an OS thread. If the caller is cancelled meanwhile, the file is closed after the open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .._workers.offload import OffloadPool

__all__ = ["offload_open"]

Opened = TypeVar("Opened")


def offload_open(pool: OffloadPool, make: Callable[[], Opened], close: Callable[[Opened], object]) -> Opened:
    """Return the file that ``make()`` opens in a thread of the pool.

    Parks: as ``pool.offload`` does. A cancel ends only the caller's wait; after the open, ``close(opened)`` is called.
    """
    pending = PendingOpen(make, close)
    try:
        return pool.offload(pending.open)
    except BaseException:
        pending.close_after_both()
        raise


class PendingOpen(Generic[Opened]):
    """An open that runs in the pool. If the caller is cancelled meanwhile, the file is closed once it is open."""

    def __init__(self, make: Callable[[], Opened], close: Callable[[Opened], object]) -> None:
        self.make = make
        self.close = close
        self.opened: list[Opened] = []
        self.firsts: list[None] = [None]

    def open(self) -> Opened:
        """Open the file, and close it if the caller was cancelled. From: a thread of the pool."""
        self.opened.append(self.make())
        self.close_after_both()
        return self.opened[0]

    def close_after_both(self) -> None:
        """Record an open file, or a cancelled caller. After both events, close the file. From: any thread."""
        try:
            self.firsts.pop()  # an atomic step, so only the later one of two threads finds the list empty
        except IndexError:
            self.close(self.opened[0])
