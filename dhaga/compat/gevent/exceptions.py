"""Exceptions of ``gevent.exceptions``."""

from __future__ import annotations

from greenlet import GreenletExit

from ..._kernel.errors import Deadlock

__all__ = [
    "BlockingSwitchOutError", "ConcurrentObjectUseError", "GreenletExit", "HubDestroyed", "InvalidSwitchError",
    "InvalidThreadUseError", "LoopExit",
]  # fmt: skip


LoopExit = Deadlock
"""Raised if all greenlets wait for each other for ever."""


class BlockingSwitchOutError(AssertionError):
    """A greenlet parked where it must not."""


class InvalidSwitchError(AssertionError):
    """An unexpected switch."""


class ConcurrentObjectUseError(AssertionError):
    """Two greenlets use an object for one at the same time."""


class InvalidThreadUseError(RuntimeError):
    """An object is used outside the OS thread that created it."""


class HubDestroyed(GreenletExit):
    """The hub of this thread is gone."""

    def __init__(self, destroy_loop: bool) -> None:
        super().__init__(destroy_loop)
        self.destroy_loop = destroy_loop
