"""Pauses for calls that block their OS thread in a real program. A simulated caller waits on the virtual clock."""

from __future__ import annotations

from typing import Any

from ..._kernel.wait.current import may_yield, running_waiter
from ..._kernel.wait.waiter import Waiter


class EndOfCall:
    """A timer entry that wakes the caller of a blocking call, whose uncancellable park ignores timeouts."""

    def __init__(self, waiter: Waiter) -> None:
        self.waiter = waiter

    def _expire(self) -> None:
        self.waiter.wake_parked()


def pause(scheduler: Any, me: Waiter, seconds: float, reason: str) -> None:
    """Wait for ``seconds`` seconds of virtual time. A cancel during the wait stays pending."""
    me.prepare_uncancellable(reason)
    entry = scheduler.expire_after(seconds, EndOfCall(me))
    me.park_within(None)
    scheduler.timers.discard(entry)


def pause_caller(scheduler: Any, seconds: float, reason: str) -> None:
    """Wait for ``seconds`` seconds if the caller can wait. In a callback or a coroutine, return at once."""
    me = running_waiter()
    if me is not None and me.scheduler is scheduler and may_yield(me):
        pause(scheduler, me, seconds, reason)
