"""Units of new work, such as requests: ``NewWorkQueue`` decides when each of them begins.

A server calls ``begin_new_work`` before each request and ``end_work`` after it.
"""

from __future__ import annotations

from typing import Any

from greenlet import getcurrent

from .scheduler import sleep


def begin_new_work() -> None:
    """Begin a unit of work. Servers call this function before each request.

    If a unit is in progress, or if the caller has begun another unit in the same turn, yield first. The yield ends when
    the run queue is empty and all earlier new work has begun, or when ``NewWorkQueue`` ends the wait. A yield before
    each unit would take 14,000 machine instructions of each request, even if the app never parks.
    Parks: ``sleep``, in these cases. From: a dhaga; no-op elsewhere. Only a dhaga of NORMAL priority yields. Raises:
    Cancelled, Expired.
    """
    me: Any = getcurrent()
    scheduler = getattr(me, "scheduler", None)
    if scheduler is None:
        return
    # Without the check of the turn, a client that pipelines requests would get many answers in a row.
    turn = scheduler.count_switches()
    others_first = scheduler.units_in_progress or turn == scheduler.last_unit_turn
    if (scheduler._new_work or (others_first and scheduler.run_queue)) and me.wake_queue is scheduler.run_queue:
        me.wake_queue = scheduler._new_work
        try:
            sleep(0)
        finally:
            me.wake_queue = scheduler._queue_of(me.own_priority)
        turn = scheduler.count_switches()
    scheduler.units_in_progress += 1
    scheduler.last_unit_turn = turn


def end_work() -> None:
    """End a unit of work. In exchange, the next unit may begin. Servers call this function after each request.

    From: the dhaga that has begun the unit; no-op elsewhere.
    """
    scheduler: Any = getattr(getcurrent(), "scheduler", None)
    if scheduler is not None:
        scheduler.units_in_progress -= 1
        if scheduler._new_work:
            scheduler._new_work.begin_in_exchange()
