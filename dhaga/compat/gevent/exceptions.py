"""Exceptions of ``gevent.exceptions``."""

from __future__ import annotations

from greenlet import GreenletExit

from ..._kernel.errors import Deadlock

__all__ = [
    "BlockingSwitchOutError",
    "ConcurrentObjectUseError",
    "GreenletExit",
    "HubDestroyed",
    "InvalidSwitchError",
    "InvalidThreadUseError",
    "LoopExit",
]


LoopExit = Deadlock
"""Raised where all greenlets wait for each other for good."""


class BlockingSwitchOutError(AssertionError):
    """A greenlet parked where it must not."""


class InvalidSwitchError(AssertionError):
    """A switch that was not asked for."""


class ConcurrentObjectUseError(AssertionError):
    """An object is used by two greenlets at once that only one may use."""


class InvalidThreadUseError(RuntimeError):
    """An object is used in an OS thread that it was not made in."""


class HubDestroyed(GreenletExit):
    """The hub of this thread is gone."""

    def __init__(self, destroy_loop: bool) -> None:
        super().__init__(destroy_loop)
        self.destroy_loop = destroy_loop
