"""A pause of a call that blocks its OS thread in a real program: the caller waits on the virtual clock."""

from __future__ import annotations

from typing import Any

from ..._kernel.wait.current import may_yield, running_waiter
from ..._kernel.wait.waiter import Waiter


class EndOfCall:
    """Timer entry that wakes the caller of a blocking call: a timeout of its park could not end it."""

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter

    def _expire(self) -> None:
        self.waiter.wake_parked()


def pause(scheduler: Any, me: Waiter, seconds: float, reason: str) -> None:
    """Wait for some seconds; a cancel stays pending."""
    me.prepare_uncancellable(reason)
    entry = scheduler.expire_after(seconds, EndOfCall(me))
    me.park_within(None)
    scheduler.timers.discard(entry)


def pause_caller(scheduler: Any, seconds: float, reason: str) -> None:
    """Wait for some seconds where the caller can; a callback and a coroutine go on at once."""
    me = running_waiter()
    if me is not None and me.scheduler is scheduler and may_yield(me):
        pause(scheduler, me, seconds, reason)
