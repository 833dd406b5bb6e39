"""Schedulers that have ended, and the dhagas that they have left behind."""

from __future__ import annotations

from .lives import Guest
from .microthread import logger
from .scheduler import Scheduler, schedulers

graveyard: list[Scheduler] = []
"""Schedulers whose dhagas never run again. Dropping one would throw GreenletExit into it and run its ``finally``."""


def bury_guests_of_closed_loops() -> None:
    """Close what guests still hold whose loops were closed without a shutdown; what lived there never runs again."""
    for scheduler in list(schedulers):
        if isinstance(scheduler.life, Guest) and scheduler.loop.is_closed():
            scheduler.poller.abandon()
            scheduler.life.left_behind()
            schedulers.discard(scheduler)
            if scheduler.live:
                graveyard.append(scheduler)
                logger.error("these dhagas are left over, their loop having been closed: %s", names(scheduler))


def names(scheduler: Scheduler) -> str:
    return ", ".join(map(repr, scheduler.in_order()))
