"""Alarms: one timeout of a scheduler's loop, for the earliest of its deadlines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Alarm:
    """Have a scheduler run a lap when its earliest deadline has come."""

    __slots__ = ("at", "handle", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.handle: asyncio.TimerHandle | None = None
        self.at = 0.0

    def set(self) -> None:
        """Keep one timeout of the loop armed, for the earliest deadline there is now."""
        deadline = self.scheduler.timers.next_deadline()
        if self.handle is not None:
            if deadline is not None and self.at <= deadline and not self.handle.cancelled():
                return
            self.cancel()
        if deadline is not None:
            self.at = deadline
            self.handle = self.scheduler.loop.call_later(max(0.0, deadline - self.scheduler.clock()), self.ring)

    def cancel(self) -> None:
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None

    def ring(self) -> None:
        self.handle = None
        self.scheduler.lap()
