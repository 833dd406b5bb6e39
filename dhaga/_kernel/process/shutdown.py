"""Shutdown: of a thread's dhagas with that thread, of all with the interpreter, and of the process with its status.

Interpreter exit takes these steps. ``at_exit`` (a threading exit hook, before executors end and OS threads are joined,
as dhagas may use both) waits for dhagas that are not daemons, cancels the rest and lets each ``finally`` run within
``EXIT_SECONDS``. After the OS threads are joined, ``after_threads`` (atexit) does the same for what those threads, or
exit handlers, have started since, and stops all schedulers. Last, ``freeze_getcurrent`` keeps locks working for
finalizers.
After a Ctrl-C, or a SystemExit raised in a dhaga, there is no waiting: all dhagas are cancelled at once. A plain
thread with a scheduler of its own ends its dhagas in the finalizer of a thread-local object (``ThreadEnd``), and a
guest ends with its loop (``run_modes.py``).
A scheduler whose dhagas did not end, or never can, is kept in ``ended_schedulers`` until the process is gone.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (registers its exit hook before ours: the last one is called first)
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable

from greenlet import getcurrent

from .. import hooks, originals
from ..errors import Cancelled, Deadlock
from ..fast import compiled
from ..run.main_code import Main
from ..run.microthread import Dhaga
from ..run.run_modes import GuestMode, OwnThreadMode
from ..run.scheduler import Scheduler, schedulers
from ..run.uncaught import logger
from ..wait.cancellation import pending_errors_of
from ..wait.current import this_thread

# Seconds that all dhagas cancelled at exit may take together for their ``finally``.
EXIT_SECONDS = 10.0

# Set by the patch.
threads_are_dhagas = False

# Schedulers whose dhagas never run again. Dropping one would throw GreenletExit into its dhagas and run their
# ``finally``.
ended_schedulers: list[Scheduler] = []

threading_hooks: list[Callable[[], object]] = getattr(threading, "_threading_atexits", [])

# The executors' hook, and the hooks that the program registered before it imported Dhaga.
earlier_hooks = len(threading_hooks)


# ---- at interpreter exit


def at_exit() -> None:
    """End as a threaded program does: wait for the dhagas that are not daemons, then cancel the rest.

    The status of a SystemExit raised in a dhaga becomes the process's.
    """
    # The executors end first in that case: their workers are dhagas, for which end_dhagas() would wait in vain.
    if threads_are_dhagas:
        call_earlier_hooks()
    interruption = end_dhagas()
    # A thread that is not joined yet may still use one of our schedulers.
    if not any_user_thread():
        stop_schedulers()
    if isinstance(interruption, SystemExit):
        atexit.register(exit_with, interruption)
    elif isinstance(interruption, KeyboardInterrupt):
        # As at the join of a thread: Python reports the error and stops waiting.
        raise interruption
    else:
        log_at_exit(interruption)


def log_at_exit(interruption: BaseException | None) -> None:
    """Log the error that cut the wait for dhagas short, unless it is the Deadlock that already ended the program."""
    known = isinstance(interruption, Deadlock) and isinstance(getattr(sys, "last_value", None), Deadlock)
    if interruption is not None and not known:
        logger.error("at exit: %s", interruption)


def call_earlier_hooks() -> None:
    """Call, the last one first, the hooks registered before ``at_exit``, which would otherwise run only after it."""
    for number in reversed(range(earlier_hooks)):
        hook, threading_hooks[number] = threading_hooks[number], lambda: None
        hook()


def after_threads() -> None:
    """End what OS threads, or exit handlers of the program, have started since ``at_exit``; call the last hooks."""
    interruption = end_dhagas()
    stop_schedulers()
    for hook in hooks.after_dhagas_at_exit:
        hook()
    log_at_exit(interruption)


# ---- the dhagas


def end_dhagas(of_process: bool = True) -> BaseException | None:
    """Wait for non-daemon dhagas unless interrupted, and end this thread's. Returns: what interrupted it."""
    main = this_thread.main
    interruption: BaseException | None = None if main is None else undelivered_exit(main)
    try:
        if not interrupted():
            wait_for_dhagas(of_process)
    except BaseException as error:
        interruption = error
    if of_process:
        # The daemons still run now: the hooks need them.
        run_before_cancel_hooks()
    retire_closed_guests()
    for guest in list(schedulers):
        if isinstance(guest.mode, GuestMode) and guest.thread_ident == originals.get_ident():
            end_guest(guest, guest.mode)
    own = parkable_scheduler()
    if own is not None:
        interruption = cancel_and_join(own) or interruption
        if own.live and getcurrent() not in own.live:
            logger.error("at exit these dhagas did not end: %s", reprs_of(own))
            ended_schedulers.append(own)
    if main is not None:
        main.scheduler.mode.close()
    return interruption


def undelivered_exit(main: Main) -> SystemExit | None:
    """Return a dhaga's SystemExit that is still pending in the main code, and clear the pending errors."""
    exits = [error for error in main.pending_errors if isinstance(error, SystemExit)]
    # From now on the main code parks only to join dhagas: late cancels and Timeouts would end these joins.
    pending_errors_of(main).clear()
    return exits[0] if exits else None


def interrupted() -> bool:
    """Return whether a Ctrl-C, or a SystemExit of a dhaga, has told the program to end.

    If threads are dhagas, a Ctrl-C does not count: as in a threaded program, the exit waits for them until the next
    Ctrl-C.
    """
    if threads_are_dhagas:
        return any(isinstance(scheduler.mode.interrupted, SystemExit) for scheduler in list(schedulers))
    return any(scheduler.mode.interrupted is not None for scheduler in list(schedulers)) or isinstance(
        getattr(sys, "last_value", None), KeyboardInterrupt
    )


def parkable_scheduler() -> Scheduler | None:
    """Return the scheduler that runs while the caller parks."""
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    return None if this_thread.main is None else this_thread.main.scheduler


def wait_for_dhagas(of_process: bool) -> None:
    """Join all non-daemon dhagas that can run while the caller parks: those of its scheduler, and of schedulers with a
    thread.

    The others depend on the main code of other threads, or on the loops of their hosts.
    """
    own, me = parkable_scheduler(), getcurrent()
    while left := [
        dhaga
        for scheduler in list(schedulers)
        if scheduler is own or (of_process and isinstance(scheduler.mode, OwnThreadMode))
        for dhaga in list(scheduler.live)
        if not dhaga.daemon and dhaga is not me
    ]:
        for dhaga in left:
            dhaga.join()


def run_before_cancel_hooks() -> None:
    """Call the hooks that need daemon dhagas; an error of one is logged, and the next is called."""
    for call in hooks.before_cancel_at_exit:
        try:
            call()
        except BaseException:
            logger.exception("at exit: %r", call)


def cancel_and_join(scheduler: Scheduler) -> BaseException | None:
    """Cancel the dhagas left on the caller's scheduler, and wait for every ``finally``, for ``EXIT_SECONDS`` in all."""
    interruption: BaseException | None = None
    me = getcurrent()
    deadline = originals.monotonic() + EXIT_SECONDS
    scheduler._cancel_for_end("the interpreter exits", spared=me)
    while (left := scheduler.live - {me}) and (seconds := deadline - originals.monotonic()) > 0:
        try:
            left.pop().join(seconds)
        except (SystemExit, Cancelled) as error:
            interruption = error
        except BaseException as error:
            # A second Ctrl-C.
            return error
    return interruption


# ---- the schedulers


def retire_closed_guests() -> None:
    """Release guests whose loops were closed without a shutdown; their dhagas never run again."""
    for scheduler in list(schedulers):
        if isinstance(scheduler.mode, GuestMode) and scheduler.loop.is_closed():
            scheduler.poller.abandon()
            scheduler.mode.mark_left_in_parent()
            schedulers.discard(scheduler)
            if scheduler.live:
                ended_schedulers.append(scheduler)
                logger.error("these dhagas are left over, as their loop was closed: %s", reprs_of(scheduler))


def end_guest(scheduler: Scheduler, mode: GuestMode) -> None:
    """Cancel the dhagas of a guest whose host left its loop without shutting it down, and run that loop for them."""
    if scheduler.live and not scheduler.loop.is_running():
        with contextlib.suppress(TimeoutError):
            scheduler.loop.run_until_complete(asyncio.wait_for(mode.cancel_and_drain(), EXIT_SECONDS))
    if scheduler.live:
        logger.error("at exit these dhagas did not end: %s", reprs_of(scheduler))
        ended_schedulers.append(scheduler)
    schedulers.discard(scheduler)


def any_user_thread() -> bool:
    """Return whether an OS thread is not joined yet, which may still use one of our schedulers."""
    return any(
        not thread.daemon and thread is not originals.main_thread() and thread is not originals.current_thread()
        for thread in originals.enumerate_threads()
    )


def stop_schedulers() -> None:
    """Stop the schedulers with a thread of their own, all within ``EXIT_SECONDS``."""
    modes = [scheduler.mode for scheduler in list(schedulers) if isinstance(scheduler.mode, OwnThreadMode)]
    deadline = originals.monotonic() + EXIT_SECONDS
    for mode in modes:
        # Stop all before waiting for the first: they end at the same time.
        mode.begin_stop()
    for mode in modes:
        try:
            mode.wait_for_end(max(0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def reprs_of(scheduler: Scheduler) -> str:
    """Return the live dhagas of a scheduler, as text."""
    return ", ".join(map(repr, scheduler.in_order()))


# ---- the process, and a plain thread


def exit_with(error: SystemExit) -> None:
    """End the process with the status of a SystemExit that was raised after the main code had ended."""
    atexit.unregister(exit_with)
    # This handler is called first, as it was registered last, and os._exit skips the others.
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
        # The process dies by the signal, as Python does, so that a shell sees the Ctrl-C.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status & 0xFF)


class ThreadEnd:
    """Finalizer in the thread-local data of a plain OS thread: ends its dhagas as at interpreter exit.

    Greenlets die with their thread without running a ``finally``: this is the last chance for them to run.
    """

    def __init__(self, main: Main) -> None:
        self.main = main

    def __del__(self) -> None:
        # Called by a collection in another thread, or for a closed scheduler: this thread does not end.
        if this_thread.main is None and originals.get_ident() == self.main.ident and not self.main.scheduler.closing:
            this_thread.main = self.main
            end_dhagas(of_process=False)


def freeze_getcurrent() -> None:
    """Keep locks working to the last: finalizers use them, and from here on ``getcurrent()`` raises RuntimeError."""
    last = getcurrent()
    compiled.freeze()
    for name, module in list(sys.modules.items()):
        if name.startswith("dhaga.") and "getcurrent" in vars(module):
            module.getcurrent = lambda: last  # type: ignore[attr-defined]


# ---- registration


getattr(threading, "_register_atexit", atexit.register)(at_exit)

# atexit calls the last one registered first: this one runs after all that are registered later.
atexit.register(freeze_getcurrent)

atexit.register(after_threads)
