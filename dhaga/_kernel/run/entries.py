"""Run-queue entries other than waiters: calls that the hub makes in the middle of a lap.

The turn of an entry begins with a call of its method ``switch``. Dhagas have greenlet's. (The entry behind which NEW
dhagas wait, ``NewQueue``, switches itself, and so it is in ``scheduler.py``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenlet import getcurrent

if TYPE_CHECKING:
    from ..errors import Cancelled
    from .microthread import Dhaga
    from .scheduler import Scheduler


class HubCall:
    """Run-queue entry for a call to be made on the hub, where nothing can park: a Task's first step, for example.

    During the call asyncio sees no running loop, as in a lap.
    """

    __slots__ = ()
    scheduler: Scheduler

    def switch(self) -> None:
        scheduler = self.scheduler
        if getcurrent() is scheduler.hub:
            self.make_call()
        else:
            scheduler._run_on_hub(self)

    def make_call(self) -> None:
        """Make the call. It must not raise."""
        raise NotImplementedError


class NewcomerCancel(HubCall):
    """Run-queue entry behind a NEW dhaga: cancels it once it has run up to its first park."""

    __slots__ = ("dhaga", "error", "scheduler")

    def __init__(self, dhaga: Dhaga, error: Cancelled) -> None:
        self.scheduler = dhaga.scheduler
        self.dhaga = dhaga
        self.error = error

    def make_call(self) -> None:
        if not self.dhaga.has_ended:
            self.dhaga.cancel_with(self.error)
