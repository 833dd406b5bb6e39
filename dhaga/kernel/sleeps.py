"""Sleeps: by the clock, and of those who cannot just be switched away from."""

from __future__ import annotations

from . import originals
from .osthread import OSThread
from .waiter import CLOCK, Waiter


def sleep_long(me: Waiter, seconds: float) -> None:
    """Sleep by the clock."""
    if seconds < 0:
        raise ValueError(f"sleep length must not be negative: {seconds!r}")
    me.prepare("sleep", CLOCK)
    scheduler = me.scheduler
    entry = scheduler.timers.add(scheduler.clock() + seconds, me)
    try:
        me.park()
    finally:
        if entry[2] is not None:
            scheduler.timers.discard(entry)


def sleep_outside(me: Waiter, seconds: float) -> None:
    """Sleep in all other ways."""
    if isinstance(me, OSThread):
        originals.thread_sleep(seconds)
    elif seconds:
        sleep_long(me, seconds)
    else:
        me.prepare("sleep", CLOCK)
        me.unpark()
        me.park()
