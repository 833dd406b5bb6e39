"""One movable timer per connection, for the current wait of the connection's dhaga.

Only ``deadline`` matters; the entry in the timer heap may fire earlier. It is then set again for the current deadline,
or dropped without one (inf). So a busy connection touches the scheduler's heap once per timeout, not twice per wait; a
wait reads the clock once. All calls: on the connection's scheduler.
"""

from __future__ import annotations

import math
from typing import Any

from greenlet import getcurrent

from ..._kernel.run.timers import Entry


class IdleTimer:
    """Ends waits on one connection with TimeoutError. ``deadline``: on the scheduler's clock, or inf for none.

    Set ``deadline`` to inf when the wait is over.
    """

    __slots__ = ("deadline", "me", "timer", "waiter")

    def __init__(self, me: Any) -> None:
        self.me = me
        self.waiter = me  # the waiter that gets the TimeoutError
        self.deadline = math.inf
        self.timer: Entry | None = None

    def arm(self, seconds: float | None) -> None:
        """Bound the caller's next wait to ``seconds`` seconds; no-op outside the connection's OS thread."""
        scheduler = self.me.scheduler
        self.waiter = caller = getcurrent()  # not always the connection's dhaga: an app may read and write in others
        if seconds is None or (caller is not self.me and getattr(caller, "scheduler", None) is not scheduler):
            return
        deadline = self.deadline = scheduler.clock() + seconds
        timer = self.timer
        if timer is None or deadline < timer[0]:
            self.close()
            self.timer = scheduler.timers.add(deadline, self)

    def shorten(self, seconds: float) -> None:
        """End the current wait within ``seconds`` seconds."""
        scheduler = self.me.scheduler
        self.close()
        self.deadline = min(self.deadline, scheduler.clock() + seconds)
        self.timer = scheduler.timers.add(self.deadline, self)

    def _expire(self) -> None:
        """Time out the wait if its deadline has come, else set the timer again. From: the scheduler's timers."""
        self.timer = None
        if self.deadline <= self.me.scheduler.clock():
            self.waiter.time_out_park()
        elif self.deadline < math.inf:
            self.timer = self.me.scheduler.timers.add(self.deadline, self)

    def close(self) -> None:
        """Remove the timer."""
        if self.timer is not None:
            self.me.scheduler.timers.discard(self.timer)
            self.timer = None
