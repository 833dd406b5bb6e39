"""The scheduler of the calling thread, created on first use."""

from __future__ import annotations

import asyncio

from greenlet import getcurrent

from .. import originals
from ..run.microthread import Dhaga
from ..run.run_modes import GuestMode, ImplicitMode
from ..run.scheduler import Scheduler
from ..wait.current import scheduler_of_lap, this_thread
from .shutdown import ThreadEnd, retire_closed_guests
from .signals import listen_for_signals


def current_scheduler() -> Scheduler:
    """Return the caller's scheduler: its dhaga's, the running loop's, or the main code's.

    Parks: never. The last two are made when there is none yet.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    loop = asyncio._get_running_loop()
    # A loop that parks (dhaga/asyncio.py) runs inside a dhaga or main code, whose scheduler goes on serving it.
    if loop is not None and not getattr(loop, "parks", False):
        return scheduler_on(loop)
    # Each read of a thread-local costs as much as a call.
    if this_thread.guests and (scheduler := scheduler_of_lap()) is not None:
        return scheduler  # type: ignore[no-any-return]
    main = this_thread.main
    if main is None:
        implicit_scheduler()
        main = this_thread.main
    return main.scheduler  # type: ignore[no-any-return]


def scheduler_on(loop: asyncio.AbstractEventLoop) -> Scheduler:
    """Return the scheduler on the loop that runs in this thread."""
    # A thread may run several loops in turn: each keeps its own guest scheduler.
    for candidate in (this_thread.guests.get(loop), this_thread.main and this_thread.main.scheduler):
        if candidate is not None and candidate.loop is loop:
            return candidate  # type: ignore[no-any-return]
    # The host may have closed its former loop without a shutdown, with a mere loop.close(): that guest ends now.
    retire_closed_guests()
    guest = Scheduler(f"guest of {type(loop).__name__}", loop=loop)
    GuestMode(guest)
    return guest


def implicit_scheduler() -> None:
    """Make the scheduler of this thread's main code."""
    thread = originals.current_thread()
    ImplicitMode(Scheduler(thread.name))
    # Python calls signal handlers in the main thread only. Other threads need ``thread_end`` instead: the interpreter
    # exits with the main thread, whereas they may end at any time.
    if thread is originals.main_thread():
        listen_for_signals(this_thread.main.scheduler)
    else:
        this_thread.thread_end = ThreadEnd(this_thread.main)
