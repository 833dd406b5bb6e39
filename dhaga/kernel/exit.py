"""The end: of a thread's dhagas with that thread, of all with the interpreter, and of the process with its status."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (its exit hook must be there before ours: the last one is called first)
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from greenlet import getcurrent

from . import originals
from .errors import Cancelled
from .graveyard import bury_guests_of_closed_loops, graveyard, names
from .lives import Guest, OwnThread
from .microthread import Dhaga, Main, logger
from .scheduler import Scheduler, schedulers
from .waiting import here

EXIT_SECONDS = 10.0
"""How long the dhagas that are cancelled at exit may take for their ``finally``, all together."""

last_calls: list[Callable[[], object]] = []
"""Called at exit, while the dhagas that are daemons still run: by rooms above for what those are to finish."""

farewells: list[Callable[[], object]] = []
"""Called at exit, when no dhaga is left: by rooms above that still have something to see through."""


def at_exit() -> None:
    """End as a threaded program does: wait for the dhagas that are not daemons, then cancel the rest.

    Called before the executors end and the OS threads are joined, as dhagas may use both. After a Ctrl-C, or a
    SystemExit raised in a dhaga, nobody is waited for; the status of the latter becomes the process's. Where threads
    are dhagas the executors end first, whose workers would be waited for in vain.
    """
    if threads_are_dhagas:
        call_earlier_hooks()
    interruption = end_dhagas()
    if not any_user_thread():
        stop_schedulers()
    if isinstance(interruption, SystemExit):
        atexit.register(leave_with, interruption)
    elif isinstance(interruption, KeyboardInterrupt):
        raise interruption  # as the join of a thread would: Python reports it and waits for nobody
    elif interruption is not None:
        logger.error("at exit: %s", interruption)


def call_earlier_hooks() -> None:
    """Call, last one first, what was registered before ``at_exit``, whose turn would come only after it."""
    for number in reversed(range(earlier_hooks)):
        hook, hooks[number] = hooks[number], lambda: None
        hook()


def after_threads() -> None:
    """End what OS threads, or exit handlers of the program, have started since ``at_exit``; then say farewell."""
    interruption = end_dhagas()
    stop_schedulers()
    for farewell in farewells:
        farewell()
    if interruption is not None:
        logger.error("at exit: %s", interruption)


def end_dhagas(of_process: bool = True) -> BaseException | None:
    """Wait for the dhagas that are to be waited for, and end those of this thread. Returns: what has cut that short."""
    main = here.main
    interruption: BaseException | None = None if main is None else undelivered_exit(main)
    try:
        if not interrupted():
            wait_for_dhagas(of_process)
    except BaseException as error:
        interruption = error
    if of_process:
        make_last_calls()
    bury_guests_of_closed_loops()
    for guest in list(schedulers):
        if isinstance(guest.life, Guest) and guest.ident == originals.get_ident():
            end_guest(guest, guest.life)
    mine = parkable_scheduler()
    if mine is not None:
        interruption = see_off(mine) or interruption
        if mine.live and getcurrent() not in mine.live:
            logger.error("at exit these dhagas did not end: %s", names(mine))
            graveyard.append(mine)
    if main is not None:
        main.scheduler.life.close()
    return interruption


def make_last_calls() -> None:
    for call in last_calls:
        try:
            call()
        except BaseException:
            logger.exception("at exit: %r", call)


def undelivered_exit(main: Main) -> SystemExit | None:
    """Return the SystemExit of a dhaga that the main code has not parked for; it parks now, to no other purpose."""
    exits = [error for error in main.pending if isinstance(error, SystemExit)]
    main.pending.clear()
    return exits[0] if exits else None


def interrupted() -> bool:
    """Tell whether a Ctrl-C, or a SystemExit of a dhaga, has told the program to end.

    Where threads are dhagas a Ctrl-C does not: threads are waited for all the same, until the next one.
    """
    if threads_are_dhagas:
        return any(isinstance(scheduler.life.interrupted, SystemExit) for scheduler in list(schedulers))
    return any(scheduler.life.interrupted is not None for scheduler in list(schedulers)) or isinstance(
        getattr(sys, "last_value", None), KeyboardInterrupt
    )


def parkable_scheduler() -> Scheduler | None:
    """Return the scheduler that runs while the caller parks."""
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    return None if here.main is None else here.main.scheduler


def wait_for_dhagas(of_process: bool) -> None:
    """Join all that are not daemons and run on while the caller parks: its own scheduler's, and those with a thread.

    Others are bound to the main code of their own threads, or to the loops of their hosts.
    """
    mine, me = parkable_scheduler(), getcurrent()
    while left := [
        dhaga
        for scheduler in list(schedulers)
        if scheduler is mine or (of_process and isinstance(scheduler.life, OwnThread))
        for dhaga in list(scheduler.live)
        if not dhaga.daemon and dhaga is not me
    ]:
        for dhaga in left:
            dhaga.join()


def see_off(scheduler: Scheduler) -> BaseException | None:
    """Cancel what is left of the caller's scheduler, and wait for every ``finally``, for ``EXIT_SECONDS`` in all."""
    interruption: BaseException | None = None
    me = getcurrent()
    deadline = originals.monotonic() + EXIT_SECONDS
    for dhaga in scheduler.in_order():
        if dhaga is not me:
            dhaga.interrupt(Cancelled("the interpreter exits"))
    while (left := scheduler.live - {me}) and (seconds := deadline - originals.monotonic()) > 0:
        try:
            left.pop().join(seconds)
        except (SystemExit, Cancelled) as error:
            interruption = error
        except BaseException as error:  # a second Ctrl-C
            return error
    return interruption


def end_guest(scheduler: Scheduler, life: Guest) -> None:
    """Cancel the dhagas of a guest whose host left its loop without shutting it down, and run that loop for them."""
    if scheduler.live and not scheduler.loop.is_running():
        with contextlib.suppress(TimeoutError):
            scheduler.loop.run_until_complete(asyncio.wait_for(life.drain(), EXIT_SECONDS))
    if scheduler.live:
        logger.error("at exit these dhagas did not end: %s", names(scheduler))
        graveyard.append(scheduler)
    schedulers.discard(scheduler)


def any_user_thread() -> bool:
    """Tell whether an OS thread is still to be joined, which may use a scheduler of ours meanwhile."""
    return any(
        not thread.daemon and thread is not originals.main_thread() and thread is not originals.current_thread()
        for thread in originals.enumerate_threads()
    )


def stop_schedulers() -> None:
    """Stop the schedulers with a thread of their own, all within ``EXIT_SECONDS``."""
    lives = [scheduler.life for scheduler in list(schedulers) if isinstance(scheduler.life, OwnThread)]
    deadline = originals.monotonic() + EXIT_SECONDS
    for life in lives:
        life.begin_stop()
    for life in lives:
        try:
            life.wait_for_end(max(0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def leave_with(error: SystemExit) -> None:
    """End the process with the status of a SystemExit that came when the main code had ended, after all exit
    handlers.
    """
    atexit.unregister(leave_with)
    atexit._run_exitfuncs()
    end_process(error)


def end_process(failure: BaseException | None) -> None:
    """End with the exit status that ``failure`` stands for, as the interpreter would."""
    status = int(failure is not None)
    if isinstance(failure, SystemExit):
        status = failure.code if isinstance(failure.code, int) else int(failure.code is not None)
        if not isinstance(failure.code, int | None):
            print(failure.code, file=sys.stderr)
    elif isinstance(failure, KeyboardInterrupt):
        sys.excepthook(type(failure), failure, failure.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    if isinstance(failure, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


class ThreadEnd:
    """Goes with the thread-local data of a plain OS thread, whose dhagas end there as at interpreter exit.

    Greenlets die with their thread without running a ``finally``, so that this is the last chance for them to run.
    """

    def __init__(self, main: Main) -> None:
        self.main = main

    def __del__(self) -> None:
        if here.main is None and originals.get_ident() == self.main.ident and not self.main.scheduler.closing:
            here.main = self.main
            end_dhagas(of_process=False)


def outlive_greenlets() -> None:
    """Let locks work to the last: finalizers take some, but from here on ``getcurrent()`` raises RuntimeError."""
    last = getcurrent()
    for name, module in list(sys.modules.items()):
        if name.startswith("dhaga.") and "getcurrent" in vars(module):
            module.getcurrent = lambda: last  # type: ignore[attr-defined]


threads_are_dhagas = False
"""Set by the patch."""

hooks: list[Callable[[], object]] = getattr(threading, "_threading_atexits", [])
earlier_hooks = len(hooks)
getattr(threading, "_register_atexit", atexit.register)(at_exit)
atexit.register(outlive_greenlets)  # called after all that are registered later
atexit.register(after_threads)
