"""One movable timer per connection, for whatever its dhaga waits for at the moment.

``deadline`` is what counts; the timer heap's entry may fire earlier. When it does, the entry is set again for the
current deadline, or dropped if there is none (inf). So a busy connection touches the scheduler's heap once per timeout,
not twice per wait; a wait costs one look at the clock. All calls: on the connection's scheduler.
"""

from __future__ import annotations

import math
from typing import Any

from greenlet import getcurrent

from ..._kernel.timers import Entry


class IdleTimer:
    """Ends waits on one connection by TimeoutError. ``deadline``: by the scheduler's clock; inf: none.

    Set ``deadline`` to inf when the wait is over.
    """

    __slots__ = ("deadline", "me", "timer", "waiter")

    def __init__(self, me: Any) -> None:
        self.me = me
        self.waiter = me  # the waiter that gets the TimeoutError
        self.deadline = math.inf
        self.timer: Entry | None = None

    def arm(self, seconds: float | None) -> None:
        """Bound the caller's next wait to so many seconds; no-op in another OS thread than the connection's."""
        scheduler = self.me.scheduler
        self.waiter = caller = getcurrent()  # an app may read or write in another dhaga than the connection's
        if seconds is None or (caller is not self.me and getattr(caller, "scheduler", None) is not scheduler):
            return
        deadline = self.deadline = scheduler._clock() + seconds
        timer = self.timer
        if timer is None or deadline < timer[0]:
            self.close()
            self.timer = scheduler._timers.add(deadline, self)

    def shorten(self, seconds: float) -> None:
        """Let the current wait end within so many seconds."""
        scheduler = self.me.scheduler
        self.close()
        self.deadline = min(self.deadline, scheduler._clock() + seconds)
        self.timer = scheduler._timers.add(self.deadline, self)

    def _expire(self) -> None:
        """Time the wait out if its deadline has come, else set the timer again. From: the scheduler's timers."""
        self.timer = None
        if self.deadline <= self.me.scheduler._clock():
            self.waiter._time_out()
        elif self.deadline < math.inf:
            self.timer = self.me.scheduler._timers.add(self.deadline, self)

    def close(self) -> None:
        """Remove the timer."""
        if self.timer is not None:
            self.me.scheduler._timers.discard(self.timer)
            self.timer = None
