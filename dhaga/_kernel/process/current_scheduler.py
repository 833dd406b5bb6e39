"""The scheduler of the calling thread, created on first use."""

from __future__ import annotations

import asyncio
import atexit

from greenlet import getcurrent

from .. import hooks, originals
from ..helper_threads import signals_blocked
from ..run.microthread import Dhaga
from ..run.run_modes import GuestMode, ImplicitMode
from ..run.scheduler import Scheduler
from ..wait.current import scheduler_of_lap, this_thread
from .remote_scripts import listen_for_scripts
from .shutdown import retire_closed_guests
from .signals import listen_for_signals
from .thread_end import ThreadEnd


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
    """Make the scheduler of this thread's main code. Raises: errors of handlers of signals, once it is made."""
    # A handler that raised in the middle would leave half a loop. One may still run, as for a signal that another
    # thread has taken.
    with signals_blocked():
        make_scheduler_of_main_code()


def make_scheduler_of_main_code() -> None:
    thread = originals.current_thread()
    made = ImplicitMode(Scheduler(thread.name))
    # A handler of a signal has made one meanwhile: it may have dhagas already.
    if this_thread.main is not made.main:
        made.discard()
    # Python calls signal handlers in the main thread only. Other threads need ``thread_end`` instead: the interpreter
    # exits with the main thread, whereas they may end at any time.
    elif thread is originals.main_thread():
        listen_for_signals(made.scheduler)
        listen_for_scripts()
    else:
        this_thread.thread_end = ThreadEnd(made.main)


def forget_first_wait() -> None:
    """From now on make no schedulers for first waits, which no code would end: such waits block the OS thread."""
    hooks.on_first_wait = None


hooks.on_first_wait = implicit_scheduler

# Before ``shutdown.after_threads``, because atexit calls the last one registered first.
atexit.register(forget_first_wait)
