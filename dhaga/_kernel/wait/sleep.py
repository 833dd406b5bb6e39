"""Sleeps off the fast path: by the clock, in main code, in plain OS threads. The fast path: ``scheduler.sleep``."""

from __future__ import annotations

from .. import originals
from ..faces.arguments import check_delay
from .current import check_own_loop
from .inner_waiter import inner_waiter
from .thread_waiter import OSThread
from .waiter import SLEEPING, Waiter


def timed_sleep(me: Waiter, seconds: float) -> None:
    """Sleep by the scheduler's clock. Raises: ValueError below 0 and for NaN; TypeError."""
    check_delay(seconds, "sleep")
    check_own_loop()
    me.prepare_park("sleep", SLEEPING)
    scheduler = me.scheduler
    entry = scheduler.expire_after(seconds, me)
    try:
        me.park_until_woken()
    finally:
        # The timer that ends the sleep has emptied its entry already; only a sleep that was cancelled still has one
        # armed.
        if entry[2] is not None:
            scheduler.timers.discard(entry)


def sleep_off_fast_path(me: Waiter, seconds: float) -> None:
    """Sleep if ``scheduler.sleep`` has no short cut: plain thread, main code, real duration, pending cancel."""
    if me.parked:
        me = inner_waiter(me)
    if isinstance(me, OSThread):
        originals.thread_sleep(seconds)
    elif seconds:
        timed_sleep(me, seconds)
    else:
        me.prepare_park("sleep", SLEEPING)
        # Woken before it parks: the waiter is at the end of the run queue and goes once around it.
        me.wake_parked()
        me.park_until_woken()
