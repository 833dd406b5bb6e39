"""The exit of the process: ends the dhagas, and ends the process with the right exit status.

The exit has three steps, in CPython's order. Dhaga makes the first and the last step:

- ``at_exit``, a threading exit hook, is called when CPython joins threads. It joins the dhagas that are not daemons.
- Exit handlers (``atexit``) run while the daemons are alive and the main code can still park. The scheduler of the
  main code is never closed, because handlers that were registered before the import of Dhaga are called after Dhaga's
  last step.
- ``end_daemons``, an exit handler, is called after all handlers registered later. It cancels the daemons, whose
  ``finally`` blocks may take ``EXIT_SECONDS``. Threads of a program, and greenlets of a package that Dhaga replaces,
  are not cancelled (``hooks.left_at_exit``): like CPython's daemon threads, they never run again.

After these steps ``outlast_getcurrent`` keeps locks working for finalizers.
After a Ctrl-C, or a SystemExit raised in a dhaga, the first step cancels the dhagas before it joins them. The dhagas of
a plain thread with its own scheduler end with the thread (``thread_end.py``), and a guest scheduler ends with its loop
(``run_modes.py``).
``ended_schedulers`` keeps schedulers with dhagas that did not end, until the process ends.
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
from ..errors import Cancelled, Deadlock, Expired
from ..fast import compiled
from ..platform.system import system
from ..run.attachment import schedulers
from ..run.main_code import Main
from ..run.microthread import Dhaga
from ..run.run_modes import GuestMode, OwnThreadMode
from ..run.scheduler import Scheduler, sleep
from ..run.uncaught import logger
from ..wait.cancellation import pending_errors_of
from ..wait.current import this_thread, this_waiter
from ..wait.waiter import YIELDING
from .main_end import main_end

# Seconds that all dhagas cancelled at exit may take together for their ``finally`` blocks.
EXIT_SECONDS = 10.0

# Seconds that the remaining dhagas may take together to use locks and items that were handed over to them.
SERVED_SECONDS = 0.1

# Whether ``monkey.patch`` has turned the program's threads into dhagas.
threads_are_dhagas = False

# Schedulers whose dhagas never run again. Without a reference to a scheduler, greenlet would throw GreenletExit into
# the scheduler's dhagas and run their ``finally`` blocks.
ended_schedulers: list[Scheduler] = []

threading_hooks: list[Callable[[], object]] = getattr(threading, "_threading_atexits", [])

# The number of hooks registered before ``at_exit``: the executors' hook, and hooks that the program registered before
# it imported Dhaga.
earlier_hooks = len(threading_hooks)


# ---- at interpreter exit


def at_exit() -> None:
    """Join the dhagas that are not daemons, as a threaded program joins its threads. From: the end of the main code.

    The status of a SystemExit raised in a dhaga becomes the exit status of the process. After a Deadlock it is 1.
    """
    # If threads are dhagas, the executors must end first: their workers are also dhagas, and a join of these workers
    # would never end.
    if threads_are_dhagas:
        call_earlier_hooks()
    main_end.set()
    interruption = join_dhagas()
    # If no exit handlers follow, this is the last step. But a thread that is not joined yet may still use a scheduler.
    if not handlers_follow() and not any_user_thread():
        end_daemons()
    if isinstance(interruption, KeyboardInterrupt):
        # Python reports this error and stops waiting, as when it joins threads.
        raise interruption
    if not isinstance(interruption, SystemExit):
        log_at_exit(interruption)
    # A program of threads would hang, so a supervisor would kill it: a Deadlock is not a success either.
    if isinstance(interruption, SystemExit | Deadlock):
        atexit.register(exit_with, interruption)


def handlers_follow() -> bool:
    """Return whether the interpreter itself has called the threading exit hooks. If so, exit handlers are called next.

    If Python code has called these hooks, as in a child process of ``multiprocessing``, ``os._exit`` ends the process
    without exit handlers.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not threading._shutdown.__code__:  # type: ignore[attr-defined]
        frame = frame.f_back
    return frame is None or frame.f_back is None


def log_at_exit(interruption: BaseException | None) -> None:
    """Log the error that interrupted the wait for dhagas, unless the program has already reported a Deadlock."""
    deadlocked = isinstance(interruption, Deadlock)
    if interruption is not None and not (deadlocked and isinstance(getattr(sys, "last_value", None), Deadlock)):
        # The text of a Deadlock names the waits. A signal handler's error may have no text.
        logger.error("at exit: %s", interruption, exc_info=None if deadlocked else interruption)


def call_earlier_hooks() -> None:
    """Call the hooks that were registered before ``at_exit``, the last hook first. The interpreter would call these
    hooks only after ``at_exit``.
    """
    for number in reversed(range(earlier_hooks)):
        hook, threading_hooks[number] = threading_hooks[number], lambda: None
        hook()


def end_daemons() -> None:
    """Cancel the daemons for which ``is_told`` is true, and call the last hooks.

    The dhagas that OS threads and exit handlers have spawned since ``at_exit`` are joined first. Threads among these
    dhagas are not joined, as in CPython.
    """
    interruption = join_dhagas(is_told)
    # These hooks need daemons that still run.
    run_before_cancel_hooks()
    end_guests()
    cancel_and_join(schedulers_of_exit(), is_told)
    stop_threads()
    for hook in hooks.after_dhagas_at_exit:
        hook()
    run_served()
    finish_callback()
    log_at_exit(interruption)


def run_served() -> None:
    """Run remaining dhagas that were handed something, for example a lock, and have not run since. Parks: ``sleep``.

    Otherwise a finalizer in the last garbage collection would wait forever for such a lock: no dhaga runs then.
    """
    scheduler = parkable_scheduler()
    if scheduler is None or interrupted():
        return
    deadline = originals.monotonic() + SERVED_SECONDS
    with contextlib.suppress(Exception, Cancelled, Expired):
        while originals.monotonic() < deadline and any(
            getattr(each, "wait_target", None) not in (None, YIELDING) for each in scheduler.woken()
        ):
            sleep(0)


def finish_callback() -> None:
    """Run the caller's loop until the callback that has resumed the caller has ended, unless dhagas are left.

    Until then, asyncio holds the callback's arguments, for example a Task whose result is a file. The file would not be
    flushed. Parks: until the loop's next turn (``exit``).
    """
    scheduler = parkable_scheduler()
    if scheduler is None or scheduler.live or interrupted():
        return
    with contextlib.suppress(Exception, Cancelled, Expired):
        me = this_waiter()
        scheduler.loop.call_soon(me.wake_parked)
        me.prepare_park("exit")
        me.park_within(EXIT_SECONDS)


# ---- the dhagas


def is_told(dhaga: Dhaga) -> bool:
    """Return whether the exit cancels a dhaga, so that its ``finally`` blocks run. Other dhagas never run again."""
    return not any(is_left(dhaga) for is_left in hooks.left_at_exit)


def join_dhagas(chosen: Callable[[Dhaga], bool] = lambda dhaga: True) -> BaseException | None:
    """Join the chosen dhagas that are not daemons, or cancel them if the wait is interrupted.

    Returns: the error that interrupted the wait, or None.
    """
    main = this_thread.main
    interruption: BaseException | None = None if main is None else undelivered_exit(main)
    try:
        if not interrupted():
            wait_for_dhagas(schedulers_of_exit(), chosen)
            return interruption
    except BaseException as error:
        interruption = error
    # As when CPython joins threads, a Ctrl-C ends the wait, and the threads run until the end of the process.
    if threads_are_dhagas and isinstance(interruption, KeyboardInterrupt):
        return interruption
    return cancel_and_join(schedulers_of_exit(), lambda dhaga: not dhaga.daemon and chosen(dhaga)) or interruption


def undelivered_exit(main: Main) -> SystemExit | None:
    """Clear the main code's pending errors. Returns: a dhaga's SystemExit that was among these errors, or None."""
    exits = [error for error in main.pending_errors if isinstance(error, SystemExit)]
    # From now on, the main code parks only to join dhagas. A cancel or an expiry that is still pending would end a
    # join.
    pending_errors_of(main).clear()
    return exits[0] if exits else None


def interrupted() -> bool:
    """Return whether a Ctrl-C, or a SystemExit of a dhaga, has ended the program.

    If threads are dhagas, a Ctrl-C does not count. As in a threaded program, the exit waits for the threads until the
    next Ctrl-C.
    """
    if threads_are_dhagas:
        return any(isinstance(scheduler.mode.interrupted, SystemExit) for scheduler in list(schedulers))
    return any(scheduler.mode.interrupted is not None for scheduler in list(schedulers)) or isinstance(
        getattr(sys, "last_value", None), KeyboardInterrupt
    )


def parkable_scheduler() -> Scheduler | None:
    """Return the scheduler that runs while the caller parks; None if the caller has no scheduler."""
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    return None if this_thread.main is None else this_thread.main.scheduler


def schedulers_of_exit() -> list[Scheduler]:
    """Return the schedulers that run while the caller parks: the caller's, and those that have a thread of their own.

    The other schedulers depend on the main code of other threads, or on the loops of their hosts.
    """
    own = parkable_scheduler()
    return [each for each in list(schedulers) if each is own or isinstance(each.mode, OwnThreadMode)]


def living(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> list[Dhaga]:
    """Return the chosen live dhagas of these schedulers, without the caller. Each scheduler's oldest is first."""
    me = getcurrent()
    return [dhaga for scheduler in among for dhaga in scheduler.in_order() if dhaga is not me and chosen(dhaga)]


def wait_for_dhagas(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> None:
    """Join the chosen dhagas that are not daemons, including dhagas that are spawned meanwhile."""
    while left := living(among, lambda dhaga: not dhaga.daemon and chosen(dhaga)):
        for dhaga in left:
            dhaga.join()


def run_before_cancel_hooks() -> None:
    """Call all hooks that need daemon dhagas. If a hook raises an error, log the error."""
    for call in hooks.before_cancel_at_exit:
        try:
            call()
        except BaseException:
            logger.exception("at exit: %r", call)


def cancel_and_join(among: list[Scheduler], chosen: Callable[[Dhaga], bool]) -> BaseException | None:
    """Cancel the chosen dhagas, and wait for their end, at most ``EXIT_SECONDS`` in all.

    Dhagas that are spawned meanwhile are cancelled at their first park. Returns: the SystemExit of a dhaga, or the
    error that interrupted the wait, or None.
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
            # This may be a second Ctrl-C.
            interruption = error
            break
    for scheduler in among:
        log_unended(scheduler, chosen)
        # Exit handlers may still spawn dhagas.
        scheduler.call(scheduler._accept_newcomers)
    return interruption


def log_unended(scheduler: Scheduler, chosen: Callable[[Dhaga], bool]) -> None:
    """Log the chosen dhagas that did not end."""
    if left := living([scheduler], chosen):
        logger.error("at exit these dhagas did not end: %s", ", ".join(map(repr, left)))


# ---- the schedulers


def retire_closed_guests() -> None:
    """Remove guest schedulers whose loops were closed without a shutdown. Their dhagas never run again."""
    for scheduler in list(schedulers):
        if isinstance(scheduler.mode, GuestMode) and scheduler.loop.is_closed():
            scheduler.poller.abandon()
            scheduler.mode.mark_left_in_parent()
            schedulers.discard(scheduler)
            if scheduler.live:
                ended_schedulers.append(scheduler)
                logger.error("these dhagas are left over, because their loop was closed: %s", reprs_of(scheduler))


def end_guests() -> None:
    """End the guest schedulers of this thread."""
    retire_closed_guests()
    for guest in list(schedulers):
        if isinstance(guest.mode, GuestMode) and guest.thread_ident == originals.get_ident():
            end_guest(guest, guest.mode)


def end_guest(scheduler: Scheduler, mode: GuestMode) -> None:
    """Cancel the dhagas of a guest scheduler whose loop was not shut down, and run the loop until they have ended."""
    if scheduler.live and not scheduler.loop.is_running():
        with contextlib.suppress(TimeoutError):
            scheduler.loop.run_until_complete(asyncio.wait_for(mode.cancel_and_drain(), EXIT_SECONDS))
    if scheduler.live:
        logger.error("at exit these dhagas did not end: %s", reprs_of(scheduler))
        ended_schedulers.append(scheduler)
    schedulers.discard(scheduler)


def any_user_thread() -> bool:
    """Return whether a thread of the program is not joined yet. Such a thread may still use a scheduler."""
    return any(
        not thread.daemon and thread is not originals.main_thread() and thread is not originals.current_thread()
        for thread in originals.enumerate_threads()
    )


def stop_threads() -> None:
    """Stop the schedulers that have a thread of their own and no live dhaga. The other schedulers keep running."""
    modes = [scheduler.mode for scheduler in list(schedulers) if isinstance(scheduler.mode, OwnThreadMode)]
    idle = [mode for mode in modes if not mode.scheduler.live]
    for mode in idle:
        # All schedulers are stopped before the first wait, so that they end at the same time.
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


def exit_with(error: SystemExit | Deadlock) -> None:
    """Run the exit handlers, then end the process with the status for an error raised after the main code had ended."""
    atexit.unregister(exit_with)
    # This handler was registered last and is called first. The other exit handlers are called here, because os._exit
    # skips them.
    atexit._run_exitfuncs()
    end_process(error)


def end_process(failure: BaseException | None) -> None:
    """End the process with the status that the interpreter would give to ``failure``."""
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
    """Keep locks working for the last finalizers, when ``getcurrent()`` raises RuntimeError.

    Until ``getcurrent()`` fails, dhagas can run, because exit handlers may follow. Afterwards the main thread counts as
    a plain OS thread, and its dhagas have left their queues.
    """
    original, last, state = getcurrent, getcurrent(), this_thread

    def current_or_last() -> greenlet:
        try:
            return original()
        except RuntimeError:
            # A finalizer that waits must not resume a dhaga that should never run again. A finalizer that releases or
            # notifies must not hand anything to such a dhaga.
            main, state.main = state.main, None
            for dhaga in () if main is None else main.scheduler.live:
                del dhaga.parked[:]
            return last

    compiled.freeze()
    for name, module in list(sys.modules.items()):
        if name.startswith("dhaga.") and "getcurrent" in vars(module):
            module.getcurrent = current_or_last  # type: ignore[attr-defined]


# ---- registration


getattr(threading, "_register_atexit", atexit.register)(at_exit)

# atexit calls the handlers in reverse order of registration, so this handler runs after all handlers registered later.
atexit.register(outlast_getcurrent)
atexit.register(end_daemons)
