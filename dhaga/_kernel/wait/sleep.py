"""The slow path of ``scheduler.sleep``: for sleeps with a timer, in main code, and in plain OS threads."""

from __future__ import annotations

from .. import originals
from ..faces.arguments import checked_delay
from .current import check_own_loop
from .thread_waiter import OSThread
from .waiter import SLEEPING, Waiter


def timed_sleep(me: Waiter, seconds: float) -> None:
    """Sleep by the scheduler's clock. Raises: ValueError for a negative number or NaN; TypeError; OverflowError."""
    seconds = checked_delay(seconds, "sleep")
    check_own_loop()
    me.prepare_park("sleep", SLEEPING)
    scheduler = me.scheduler
    entry = scheduler.expire_after(seconds, me)
    try:
        me.park_until_woken()
    finally:
        # A timer that ends the sleep empties its entry. After a cancel or an early wake, the entry is still armed.
        if entry[2] is not None:
            scheduler.timers.discard(entry)


def sleep_off_fast_path(me: Waiter, seconds: float) -> None:
    """Sleep in the cases that ``scheduler.sleep`` does not handle: plain thread, main code, timer, pending cancel."""
    if isinstance(me, OSThread):
        originals.thread_sleep(seconds)
    elif seconds:
        timed_sleep(me, seconds)
    else:
        me.prepare_park("sleep", SLEEPING)
        # Wake this waiter before it parks: it joins the end of the run queue, and the waiters in front of it run first.
        me.wake_parked()
        me.park_until_woken()
