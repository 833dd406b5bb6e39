"""Callers: the scheduler of whoever calls, made when there is none yet."""

from __future__ import annotations

import asyncio

from greenlet import getcurrent

from . import originals
from .exit import ThreadEnd
from .graveyard import bury_guests_of_closed_loops
from .interrupts import hear_signals
from .lives import Guest, Implicit
from .microthread import Dhaga
from .scheduler import Scheduler
from .waiting import here


def scheduler_here() -> Scheduler:
    """Return the scheduler of the caller: its dhaga's, that on the loop that runs in this thread, or the main code's.

    Parks: never. The last two are made when there is none yet.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    loop = asyncio._get_running_loop()
    if loop is not None and not getattr(loop, "parks", False):  # see dhaga/asyncio.py
        return scheduler_on(loop)
    if here.main is None:
        implicit_scheduler()
    return here.main.scheduler  # type: ignore[no-any-return]


def scheduler_on(loop: asyncio.AbstractEventLoop) -> Scheduler:
    """Return the scheduler on the loop that runs in this thread."""
    for candidate in (here.guest, here.main and here.main.scheduler):
        if candidate is not None and candidate.loop is loop:
            return candidate  # type: ignore[no-any-return]
    bury_guests_of_closed_loops()
    guest = Scheduler(f"guest of {type(loop).__name__}", loop=loop)
    Guest(guest)
    return guest


def implicit_scheduler() -> None:
    thread = originals.current_thread()
    Implicit(Scheduler(thread.name))
    if thread is originals.main_thread():
        hear_signals(here.main.scheduler)
    else:
        here.end = ThreadEnd(here.main)
