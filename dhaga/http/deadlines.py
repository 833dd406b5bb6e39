"""The one deadline of a connection, for whatever is waited for on it now, at the cost of a look at the clock.

Its timer is left where it is when the deadline moves on, and set anew when it goes off: a connection that is busy
touches the scheduler's heap once in a time-out, not twice a wait.
"""

from __future__ import annotations

import math
from typing import Any

from greenlet import getcurrent

from ..kernel.timers import Entry


class Deadline:
    """Have waits on one connection end by TimeoutError. ``moment``: when, by the scheduler's clock; inf: never.

    Set ``moment`` to inf when the wait is over.
    """

    __slots__ = ("entry", "me", "moment", "waiter")

    def __init__(self, me: Any) -> None:
        self.me = me
        self.waiter = me  # who is to be told
        self.moment = math.inf
        self.entry: Entry | None = None

    def arm(self, seconds: float | None) -> None:
        """Have what the caller waits for next end after some seconds; not in another OS thread."""
        scheduler = self.me.scheduler
        self.waiter = who = getcurrent()  # some app reads or writes in another dhaga than the connection's
        if seconds is None or (who is not self.me and getattr(who, "scheduler", None) is not scheduler):
            return
        moment = self.moment = scheduler.clock() + seconds
        entry = self.entry
        if entry is None or moment < entry[0]:
            self.close()
            self.entry = scheduler.timers.add(moment, self)

    def hasten(self, seconds: float) -> None:
        """Have the wait that is under way end after some seconds, if it would not sooner."""
        scheduler = self.me.scheduler
        self.close()
        self.moment = min(self.moment, scheduler.clock() + seconds)
        self.entry = scheduler.timers.add(self.moment, self)

    def expire(self) -> None:
        """End the wait if its moment has come, or look again when that will be; called by the scheduler."""
        self.entry = None
        if self.moment <= self.me.scheduler.clock():
            self.waiter.expire()
        elif self.moment < math.inf:
            self.entry = self.me.scheduler.timers.add(self.moment, self)

    def close(self) -> None:
        """Take the timer off."""
        if self.entry is not None:
            self.me.scheduler.timers.discard(self.entry)
            self.entry = None
