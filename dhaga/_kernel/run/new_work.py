"""Units of new work, such as requests: ``NewWorkQueue`` decides when each of them begins.

A server calls ``begin_new_work`` before each request and ``end_work`` after it.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from .scheduler import sleep


def begin_new_work() -> None:
    """Yield until the run queue is empty and all earlier new work has begun, or ``NewWorkQueue`` ends the wait. Servers
    call this function before they begin a request.

    Parks: ``sleep``, while other dhagas are runnable. From: a dhaga of NORMAL priority; no-op elsewhere. Raises:
    Cancelled, Expired.
    """
    me: Any = getcurrent()
    scheduler = getattr(me, "scheduler", None)
    if scheduler is None or me.wake_queue is not scheduler.run_queue:
        return
    if scheduler.run_queue or scheduler._new_work:
        me.wake_queue = scheduler._new_work
        try:
            sleep(0)
        finally:
            me.wake_queue = scheduler._queue_of(me.own_priority)


def end_work() -> None:
    """End a unit of work. In exchange, the next unit may begin. Servers call this function after each request.

    From: any code; no-op where no new work waits.
    """
    scheduler: Any = getattr(getcurrent(), "scheduler", None)
    if scheduler is not None and scheduler._new_work:
        scheduler._new_work.begin_in_exchange()
