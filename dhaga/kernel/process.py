"""What concerns the whole process: the scheduler of the calling thread, Ctrl-C, the interpreter's exit, and fork."""

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
from types import FrameType
from typing import Any

from greenlet import getcurrent

from . import deadlock, originals
from .errors import Cancelled
from .lives import Guest, Implicit, Orphan, OwnThread
from .microthread import OWN, Dhaga, Main, logger
from .scheduler import Scheduler, schedulers
from .waiting import here

EXIT_SECONDS = 10.0
"""How long the dhagas that are cancelled at exit may take for their ``finally``, all together."""

farewells: list[Callable[[], object]] = []
"""Called at exit, when no dhaga is left: by rooms above that still have something to see through."""

graveyard: list[Any] = []
"""Schedulers whose dhagas never run again. Dropping one would throw GreenletExit into it and run its ``finally``."""


def scheduler_here() -> Scheduler:
    """Return the scheduler of the caller: its dhaga's, that on the loop that runs in this thread, or the main code's.

    Parks: never. The last two are made when there is none yet.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me.scheduler
    loop = asyncio._get_running_loop()
    if loop is not None:
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


def bury_guests_of_closed_loops() -> None:
    """Close what guests still hold whose loops were closed without a shutdown; what lived there never runs again."""
    for scheduler in list(schedulers):
        if isinstance(scheduler.life, Guest) and scheduler.loop.is_closed():
            scheduler.poller.abandon()
            scheduler.life.left_behind()
            schedulers.discard(scheduler)
            if scheduler.live:
                graveyard.append(scheduler)
                logger.error("these dhagas are left over, their loop having been closed: %s", names(scheduler))


def implicit_scheduler() -> None:
    thread = threading.current_thread()
    Implicit(Scheduler(thread.name))
    if thread is threading.main_thread():
        take_ctrl_c()
    else:
        here.end = ThreadEnd(here.main)


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


# ---- Ctrl-C


def take_ctrl_c() -> None:
    """Have Ctrl-C reach the main code wherever it strikes; a handler that the program has set stays in place."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, on_ctrl_c)


COMPUTES_LONG = 0.2
"""Seconds after which a Ctrl-C that has not been delivered lets the next one strike the dhaga that computes."""

undelivered: list[tuple[Scheduler, float]] = []
"""The scheduler whose main code has not got its KeyboardInterrupt yet, and when that came."""


def on_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in the main code: here if that runs, at its park if it waits. Never switches.

    While a dhaga computes, the first Ctrl-C waits for the hub, so that no half-done work is struck; a second one,
    ``COMPUTES_LONG`` later, strikes the dhaga, unless it is just in code of this package, whose queues and locks must
    stay whole. What runs on another loop in the main code (``asyncio.run``) is interrupted where it stands.
    """
    me = getcurrent()
    scheduler: Any = here.guest if here.main is None else here.main.scheduler
    main: Any = None if scheduler is None else scheduler.main
    if main is None:
        raise KeyboardInterrupt
    scheduler.life.interrupted = KeyboardInterrupt()
    main_runs = me is getattr(main, "greenlet", main) and not main.parked
    if main_runs or computes_long(frame) or getattr(me, "scheduler", scheduler) is not scheduler:
        undelivered.clear()
        raise KeyboardInterrupt
    if not undelivered:
        undelivered.append((scheduler, originals.monotonic()))
        scheduler.loop.call_soon_threadsafe(deliver_ctrl_c)


def computes_long(frame: FrameType | None) -> bool:
    """Tell whether a Ctrl-C has waited so long that the next one may strike what runs in ``frame``."""
    if not undelivered or originals.monotonic() - undelivered[0][1] < COMPUTES_LONG:
        return False
    return frame is None or not frame.f_globals.get("__name__", "").startswith(OWN)


on_ctrl_c.of_dhaga = True  # type: ignore[attr-defined]


def deliver_ctrl_c() -> None:
    """Interrupt the parked main code, on the hub, where nobody is in the middle of parking.

    One that must get what it waits for, a lock after ``Condition.wait``, is interrupted by force from the second on.
    """
    while undelivered:
        scheduler, _ = undelivered.pop()
        main: Any = scheduler.main
        if not any(isinstance(error, KeyboardInterrupt) for error in main.pending):
            scheduler.life.interrupt(KeyboardInterrupt())
        else:
            main.wake(error=KeyboardInterrupt())


# ---- the end


def at_exit() -> None:
    """End as a threaded program does: wait for the dhagas that are not daemons, then cancel the rest.

    Called before the executors end and the OS threads are joined, as dhagas may use both. After a Ctrl-C, or a
    SystemExit raised in a dhaga, nobody is waited for; the status of the latter becomes the process's.
    """
    interruption = end_dhagas()
    if not any_user_thread():
        stop_schedulers()
    if isinstance(interruption, SystemExit):
        atexit.register(leave_with, interruption)
    elif isinstance(interruption, KeyboardInterrupt):
        raise interruption  # as the join of a thread would: Python reports it and waits for nobody
    elif interruption is not None:
        logger.error("at exit: %s", interruption)


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


def undelivered_exit(main: Main) -> SystemExit | None:
    """Return the SystemExit of a dhaga that the main code has not parked for; it parks now, to no other purpose."""
    exits = [error for error in main.pending if isinstance(error, SystemExit)]
    main.pending.clear()
    return exits[0] if exits else None


def interrupted() -> bool:
    """Tell whether a Ctrl-C, or a SystemExit of a dhaga, has told the program to end."""
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
        not thread.daemon and thread is not threading.main_thread() and thread is not threading.current_thread()
        for thread in threading.enumerate()
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


def names(scheduler: Scheduler) -> str:
    return ", ".join(map(repr, scheduler.in_order()))


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


getattr(threading, "_register_atexit", atexit.register)(at_exit)
atexit.register(after_threads)


# ---- fork


def after_fork_in_child() -> None:
    """Forget the parent's dhagas without running a line of theirs, and let the caller be the main code of the child."""
    survivor, main = getcurrent(), here.main
    former = survivor.scheduler if isinstance(survivor, Dhaga) else None if main is None else main.scheduler
    for scheduler in schedulers:
        leave_behind(scheduler, survivor)
    schedulers.clear()
    undelivered.clear()
    deadlock.forget()
    here.main = here.guest = here.thread = here.end = None
    if isinstance(survivor, Dhaga):
        go_on_alone(survivor)
    elif former is not None and any(getattr(entry[2], "waiter", None) is main for entry in former.timers.heap):
        implicit_scheduler()
        carry_over(former, main, here.main)


def leave_behind(scheduler: Scheduler, survivor: Any) -> None:
    """Make of the parent's scheduler, in the child, one that has ended: nobody parked there is woken any more."""
    graveyard.append(scheduler)
    scheduler.poller.abandon()
    scheduler.life.left_behind()
    if scheduler.main is not None:
        scheduler.main.parked.clear()
    for dhaga in scheduler.live - {survivor}:
        dhaga.parked.clear()
        dhaga.joiners.clear()
        dhaga.fault = Cancelled("it stayed in the parent process")
        dhaga.done = True


def go_on_alone(survivor: Dhaga) -> None:
    """Give the dhaga in which the fork was made a scheduler of its own, and let the process end with it."""
    former = survivor.scheduler
    Orphan(Scheduler(f"child {os.getpid()}"), survivor)
    carry_over(former, survivor, survivor)
    survivor.joiners[:] = [Heir(survivor)]
    take_ctrl_c()


def carry_over(former: Scheduler, who: Any, heir: Any) -> None:
    """Let the Timeouts in which the caller is at the moment of the fork go on."""
    timers = heir.scheduler.timers
    for deadline, _, expiring in former.timers.heap:
        if getattr(expiring, "waiter", None) is who:
            expiring.waiter = heir
            expiring.entry = timers.add(deadline, expiring)


class Heir:
    """Joins a dhaga that has become the main code of a forked child: with its end it ends the process."""

    __slots__ = ("survivor",)

    def __init__(self, survivor: Dhaga) -> None:
        self.survivor = survivor

    def wake(self, value: object = None, error: BaseException | None = None) -> bool:
        self.survivor.scheduler.spawn(end_child, self.survivor.fault, name="end of the child", daemon=True)
        return True


def end_child(failure: BaseException | None) -> None:
    """End a forked child whose code went on in a dhaga, as its main code had ended: others are waited for."""
    me: Any = getcurrent()
    life = me.scheduler.life
    life.main = me
    if isinstance(failure, SystemExit):
        life.interrupted = None
    interruption = end_dhagas()
    with contextlib.suppress(BaseException):
        stop_schedulers()
        threading._shutdown()  # type: ignore[attr-defined]
        for farewell in farewells:
            farewell()
    end_process(interruption if isinstance(interruption, SystemExit) else failure)


os.register_at_fork(after_in_child=after_fork_in_child)
