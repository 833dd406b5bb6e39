"""Shutdown: a thread's dhagas end with that thread, all dhagas with the interpreter, and the process with its status.

The exit of the interpreter has CPython's order, in which Dhaga has three steps:

- ``at_exit``, a threading exit hook, comes where CPython joins threads: it joins the dhagas that are not daemons.
- Exit handlers (``atexit``) run while daemons live, because the main code goes on parking. The scheduler of the main
  code is never closed: handlers that were registered before the import of Dhaga come after its last step.
- ``end_daemons``, an exit handler that comes after all that were registered later, cancels the daemons, and lets each
  ``finally`` run within ``EXIT_SECONDS``. The threads of a program, and the greenlets of a package that Dhaga stands in
  for, are left as CPython leaves daemon threads (``hooks.left_at_exit``): no code of theirs runs again.

From then on ``outlast_getcurrent`` keeps locks working for finalizers.
After a Ctrl-C, or a SystemExit raised in a dhaga, the first step does not wait, but cancels those that it would join. A
plain thread with a scheduler of its own ends its dhagas (``thread_end.py``), and a guest ends with its loop
(``run_modes.py``).
A scheduler whose dhagas did not end, or never can, is kept in ``ended_schedulers`` until the process is gone.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  (registers its exit hook before ours: the last one is called first)
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from types import FrameType

from greenlet import getcurrent, greenlet

from .. import hooks, originals
from ..errors import Cancelled, Deadlock
from ..fast import compiled
from ..platform.system import system
from ..run.attachment import schedulers
from ..run.main_code import Main
from ..run.microthread import Dhaga
from ..run.run_modes import GuestMode, OwnThreadMode
from ..run.scheduler import Scheduler
from ..run.uncaught import logger
from ..wait.cancellation import pending_errors_of
from ..wait.current import this_thread
from .main_end import main_end

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
    """End the main code as a threaded program does: join the dhagas that are not daemons.

    The status of a SystemExit raised in a dhaga becomes the process's.
    """
    # The executors end first in that case: their workers are dhagas, which would be joined in vain.
    if threads_are_dhagas:
        call_earlier_hooks()
    main_end.set()
    interruption = join_dhagas()
    # Where no exit handler follows, this is the end; but a thread that is not joined yet may still use a scheduler.
    if not handlers_follow() and not any_user_thread():
        end_daemons()
    if isinstance(interruption, SystemExit):
        atexit.register(exit_with, interruption)
    elif isinstance(interruption, KeyboardInterrupt):
        # As when Python joins threads: it reports the error and stops waiting.
        raise interruption
    else:
        log_at_exit(interruption)


def handlers_follow() -> bool:
    """Return whether the interpreter has called the threading exit hooks, and so calls exit handlers next.

    Python code that calls them, as in a child process of ``multiprocessing``, ends the process by ``os._exit``.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not threading._shutdown.__code__:  # type: ignore[attr-defined]
        frame = frame.f_back
    return frame is None or frame.f_back is None


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


def end_daemons() -> None:
    """Cancel the daemons that are told of the exit, and call the last hooks.

    OS threads and exit handlers may have spawned others since ``at_exit``: they are joined first, except for
    Threads, which CPython also leaves.
    """
    interruption = join_dhagas(is_told)
    # The daemons still run now: the hooks need them.
    run_before_cancel_hooks()
    end_guests()
    cancel_and_join(schedulers_of_exit(), is_told)
    stop_threads()
    for hook in hooks.after_dhagas_at_exit:
        hook()
    log_at_exit(interruption)


# ---- the dhagas


def is_told(dhaga: Dhaga) -> bool:
    """Return whether the exit cancels a dhaga, so that its ``finally`` runs; else it is left where it is."""
    return not any(is_left(dhaga) for is_left in hooks.left_at_exit)


def join_dhagas(chosen: Callable[[Dhaga], bool] = lambda dhaga: True) -> BaseException | None:
    """Join the chosen dhagas that are not daemons, or cancel them if the wait is interrupted.

    Returns: what interrupted it.
    """
    main = this_thread.main
    interruption: BaseException | None = None if main is None else undelivered_exit(main)
    try:
        if not interrupted():
            wait_for_dhagas(schedulers_of_exit(), chosen)
            return interruption
    except BaseException as error:
        interruption = error
    # As at the join of a thread: a Ctrl-C ends the wait, and the threads run on until the end.
    if threads_are_dhagas and isinstance(interruption, KeyboardInterrupt):
        return interruption
    return cancel_and_join(schedulers_of_exit(), lambda dhaga: not dhaga.daemon and chosen(dhaga)) or interruption


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


def schedulers_of_exit() -> list[Scheduler]:
    """Return the schedulers that run while the caller parks: its own, and those with a thread.

    The others depend on the main code of other threads, or on the loops of their hosts.
    """
    own = parkable_scheduler()
    return [each for each in list(schedulers) if each is own or isinstance(each.mode, OwnThreadMode)]


def living(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> list[Dhaga]:
    """Return the chosen live dhagas of some schedulers, the oldest first, without the caller."""
    me = getcurrent()
    return [dhaga for scheduler in among for dhaga in scheduler.in_order() if dhaga is not me and chosen(dhaga)]


def wait_for_dhagas(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> None:
    """Join the chosen dhagas that are not daemons, and those that they spawn."""
    while left := living(among, lambda dhaga: not dhaga.daemon and chosen(dhaga)):
        for dhaga in left:
            dhaga.join()


def run_before_cancel_hooks() -> None:
    """Call the hooks that need daemon dhagas; an error of one is logged, and the next is called."""
    for call in hooks.before_cancel_at_exit:
        try:
            call()
        except BaseException:
            logger.exception("at exit: %r", call)


def cancel_and_join(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> BaseException | None:
    """Cancel the chosen dhagas, and wait for every ``finally``, for ``EXIT_SECONDS`` in all.

    Dhagas that are spawned meanwhile are cancelled at their first park. Returns: a SystemExit that one raised, or what
    interrupted the wait.
    """
    interruption: BaseException | None = None
    me = getcurrent()
    deadline = originals.monotonic() + EXIT_SECONDS
    for scheduler in among:
        scheduler.call(scheduler._cancel_for_end, "the interpreter exits", lambda each: each is me or not chosen(each))
    while (left := living(among, chosen)) and (seconds := deadline - originals.monotonic()) > 0:
        try:
            left[0].join(seconds)
        except (SystemExit, Cancelled) as error:
            interruption = error
        except BaseException as error:
            # A second Ctrl-C.
            interruption = error
            break
    for scheduler in among:
        log_unended(scheduler, chosen)
        # Exit handlers may still spawn.
        scheduler.call(scheduler._accept_newcomers)
    return interruption


def log_unended(scheduler: Scheduler, chosen: Callable[[Dhaga], bool]) -> None:
    """Log the chosen dhagas that did not end."""
    if left := living([scheduler], chosen):
        logger.error("at exit these dhagas did not end: %s", ", ".join(map(repr, left)))


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


def end_guests() -> None:
    """End the guests of this thread."""
    retire_closed_guests()
    for guest in list(schedulers):
        if isinstance(guest.mode, GuestMode) and guest.thread_ident == originals.get_ident():
            end_guest(guest, guest.mode)


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


def stop_threads() -> None:
    """Stop the schedulers with a thread of their own and no dhaga left; the others are left with their threads."""
    modes = [scheduler.mode for scheduler in list(schedulers) if isinstance(scheduler.mode, OwnThreadMode)]
    idle = [mode for mode in modes if not mode.scheduler.live]
    for mode in idle:
        # Stop all before waiting for the first: they end at the same time.
        mode.begin_stop()
    deadline = originals.monotonic() + EXIT_SECONDS
    for mode in idle:
        try:
            mode.wait_for_end(max(0, deadline - originals.monotonic()))
        except TimeoutError as error:
            logger.error("at exit: %s", error)


def reprs_of(scheduler: Scheduler) -> str:
    """Return the live dhagas of a scheduler, as text."""
    return ", ".join(map(repr, scheduler.in_order()))


# ---- the process


def exit_with(error: SystemExit) -> None:
    """End the process with the status of a SystemExit that was raised after the main code had ended."""
    atexit.unregister(exit_with)
    # This handler is called first, because it was registered last, and os._exit skips the others.
    atexit._run_exitfuncs()
    end_process(error)


def end_process(failure: BaseException | None) -> None:
    """Exit with the status that the interpreter gives to ``failure``."""
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
        system.end_by_ctrl_c()
    os._exit(status & 0xFF)


def outlast_getcurrent() -> None:
    """Keep locks working to the last: finalizers use them, and ``getcurrent()`` then raises RuntimeError.

    Dhagas run until then, because exit handlers may follow; afterwards the main thread is a plain one.
    """
    original, last, state = getcurrent, getcurrent(), this_thread

    def current_or_last() -> greenlet:
        try:
            return original()
        except RuntimeError:
            # A finalizer that waits must not resume a dhaga that was left.
            state.main = None
            return last

    compiled.freeze()
    for name, module in list(sys.modules.items()):
        if name.startswith("dhaga.") and "getcurrent" in vars(module):
            module.getcurrent = current_or_last  # type: ignore[attr-defined]


# ---- registration


getattr(threading, "_register_atexit", atexit.register)(at_exit)

# atexit calls the last one registered first: this one runs after all that are registered later.
atexit.register(outlast_getcurrent)

atexit.register(end_daemons)
