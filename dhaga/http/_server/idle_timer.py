"""A timer that limits the current wait in one direction of a server connection: to receive, or to send.

A wait ends at ``deadline``. The timer's entry in the scheduler's heap of timers may fire earlier. Then the timer adds a
new entry for the current deadline, unless the deadline is inf. So a busy connection changes the heap once per timeout
instead of twice per wait, and a wait reads the clock once. All calls must come from the connection's scheduler.
"""

from __future__ import annotations

import math
from typing import Any

from greenlet import getcurrent

from ..._kernel.fast.compiled import compiled
from ..._kernel.run.timers import Entry

RETRY_SECONDS = 0.05
"""Seconds after which the timer tries again to end a wait. It cannot end the wait of a dhaga that is woken but has not
run yet; such a dhaga may wait again within the same limit.
"""


class IdleTimer:
    """A timer that ends waits in one direction of a connection with TimeoutError.

    ``deadline``: a time of the scheduler's clock. The waiter sets it to inf (no deadline) after each wait.
    """

    __slots__ = ("deadline", "me", "timer", "waiter")

    def __init__(self, me: Any) -> None:
        self.me = me
        self.waiter = me  # the waiter that gets the TimeoutError
        self.deadline = math.inf
        self.timer: Entry | None = None

    @compiled  # in C only in the connection's own dhaga, if the entry in the heap fires early enough
    def arm(self, seconds: float | None) -> None:
        """Limit the caller's next wait to ``seconds`` seconds. Outside the connection's OS thread, do nothing."""
        scheduler = self.me.scheduler
        caller = getcurrent()  # another dhaga of the app may read the body or write
        if seconds is None or (caller is not self.me and getattr(caller, "scheduler", None) is not scheduler):
            return
        self.waiter = caller
        deadline = self.deadline = scheduler.clock() + seconds
        timer = self.timer
        if timer is None or deadline < timer[0]:
            self.close()
            self.timer = scheduler.timers.add(deadline, self)

    def shorten(self, seconds: float) -> None:
        """Move the current wait's deadline, so that the wait ends within ``seconds`` seconds."""
        scheduler = self.me.scheduler
        self.close()
        self.deadline = min(self.deadline, scheduler.clock() + seconds)
        self.timer = scheduler.timers.add(self.deadline, self)

    def _expire(self) -> None:
        """Time out the wait if its deadline has passed, else set the timer again. From: the scheduler's timers."""
        self.timer = None
        now = self.me.scheduler.clock()
        deadline = self.deadline
        if deadline <= now:
            self.waiter.time_out_park()
            deadline = now + RETRY_SECONDS
        if deadline < math.inf:
            self.timer = self.me.scheduler.timers.add(deadline, self)

    def close(self) -> None:
        """Remove the timer's entry from the scheduler's heap."""
        if self.timer is not None:
            self.me.scheduler.timers.discard(self.timer)
            self.timer = None
