"""Run-queue entries that are not waiters: calls that the hub (the loop's greenlet) makes in a lap (see ``lap.py``).

To run an entry, the scheduler calls the entry's method ``switch``. Dhagas are also entries, and inherit this method
from greenlet. (``NewQueue``, the entry for dhagas that have not started, switches greenlets, and is therefore in
``scheduler.py``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenlet import getcurrent

if TYPE_CHECKING:
    from ..errors import Cancelled
    from .microthread import Dhaga
    from .scheduler import Scheduler


class HubCall:
    """Run-queue entry for a call on the hub, such as a Task's first step. The call cannot park.

    During the call, as during the whole lap, asyncio sees no running loop.
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
        """Make the call, which must not raise."""
        raise NotImplementedError


class NewcomerCancel(HubCall):
    """Run-queue entry, placed behind a NEW dhaga, that cancels the dhaga at its first park."""

    __slots__ = ("dhaga", "error", "scheduler")

    def __init__(self, dhaga: Dhaga, error: Cancelled) -> None:
        self.scheduler = dhaga.scheduler
        self.dhaga = dhaga
        self.error = error

    def make_call(self) -> None:
        if not self.dhaga.has_ended:
            self.dhaga.cancel_with(self.error)
