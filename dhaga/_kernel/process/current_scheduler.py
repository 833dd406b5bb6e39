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
from .process_exit import retire_closed_guests
from .remote_scripts import listen_for_scripts
from .signals import listen_for_signals
from .thread_end import ThreadEnd


def current_scheduler() -> Scheduler:
    """Return the caller's scheduler: the scheduler of its dhaga, of the running loop, or of the main code.

    Parks: never. A loop or main code without a scheduler gets a new one.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    loop = asyncio._get_running_loop()
    # A loop that parks (dhaga/asyncio.py) runs inside a dhaga or main code, and uses the scheduler of that dhaga or
    # main code.
    if loop is not None and not getattr(loop, "parks", False):
        return scheduler_on(loop)
    # A read of a thread-local takes as long as a call, so each attribute is read only once.
    if this_thread.guests and (scheduler := scheduler_of_lap()) is not None:
        return scheduler  # type: ignore[no-any-return]
    main = this_thread.main
    if main is None:
        implicit_scheduler()
        main = this_thread.main
    return main.scheduler  # type: ignore[no-any-return]


def scheduler_on(loop: asyncio.AbstractEventLoop) -> Scheduler:
    """Return the scheduler on the loop that runs in this thread; make a guest scheduler if the loop has none."""
    # A thread may run several loops one after the other: each loop has its own guest scheduler.
    for candidate in (this_thread.guests.get(loop), this_thread.main and this_thread.main.scheduler):
        if candidate is not None and candidate.loop is loop:
            return candidate  # type: ignore[no-any-return]
    # The host may have closed its former loop with loop.close() only, without a shutdown. In that case the guest
    # scheduler of the former loop ends now.
    retire_closed_guests()
    guest = Scheduler(f"guest of {type(loop).__name__}", loop=loop)
    GuestMode(guest)
    return guest


def implicit_scheduler() -> None:
    """Make the scheduler of this thread's main code. Raises: errors of signal handlers, after the scheduler is made."""
    # Signals are blocked, because a handler's error would leave a half-made loop. A handler may run nevertheless, for
    # example if another thread has received the signal.
    with signals_blocked():
        make_scheduler_of_main_code()


def make_scheduler_of_main_code() -> None:
    thread = originals.current_thread()
    made = ImplicitMode(Scheduler(thread.name))
    # Meanwhile a signal handler may have made another scheduler, which may already have dhagas. In that case, discard
    # the scheduler made here.
    if this_thread.main is not made.main:
        made.discard()
    # Python calls signal handlers in the main thread only. The interpreter exits with the main thread; other threads
    # may end at any time, and need ``thread_end``.
    elif thread is originals.main_thread():
        try:
            listen_for_signals(made.scheduler)
        except BaseException:  # no free file descriptors: the next call tries again
            made.close()
            raise
        listen_for_scripts()
    else:
        this_thread.thread_end = ThreadEnd(made.main)


def forget_first_wait() -> None:
    """Disable ``on_first_wait``: from now on, a first wait does not make a scheduler, and blocks the OS thread.

    From: interpreter exit. Nothing would end the dhagas of a scheduler that is made later.
    """
    hooks.on_first_wait = None


hooks.on_first_wait = implicit_scheduler

# This handler is registered after the handlers of ``process_exit``, so that atexit calls this handler first.
atexit.register(forget_first_wait)
