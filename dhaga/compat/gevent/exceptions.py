"""Exceptions of ``gevent.exceptions``."""

from __future__ import annotations

from greenlet import GreenletExit

from ..._kernel.errors import Deadlock

__all__ = [
    "BlockingSwitchOutError", "ConcurrentObjectUseError", "GreenletExit", "HubDestroyed", "InvalidSwitchError",
    "InvalidThreadUseError", "LoopExit",
]  # fmt: skip


LoopExit = Deadlock
"""The error that is raised if all greenlets wait, and no event could wake one of them."""


class BlockingSwitchOutError(AssertionError):
    """The error that gevent raises if a greenlet waits where waits are forbidden; it is never raised here."""


class InvalidSwitchError(AssertionError):
    """The error that gevent raises after an unexpected switch; it is never raised here."""


class ConcurrentObjectUseError(AssertionError):
    """The error of two greenlets that use an object at the same time, although only one may use it."""


class InvalidThreadUseError(RuntimeError):
    """The error of an object that is used outside the OS thread that created it."""


class HubDestroyed(GreenletExit):
    """The error that gevent raises if a hub is destroyed; it is never raised here."""

    def __init__(self, destroy_loop: bool) -> None:
        super().__init__(destroy_loop)
        self.destroy_loop = destroy_loop
