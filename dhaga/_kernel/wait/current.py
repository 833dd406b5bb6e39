"""The calling waiter: a dhaga, the main code of a scheduler's thread, or a plain OS thread.

``ThisThread`` is the kernel's thread-local state; it survives every patch, because it is the standard library's
``local``.
"""

from __future__ import annotations

import sys
from asyncio import _get_running_loop
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from greenlet import getcurrent

from .. import hooks, originals
from ..errors import ParkError
from .cancellation import NoPark
from .inner_waiter import inner_waiter
from .thread_waiter import OSThread
from .waiter import Waiter


class ThisThread(originals.local):
    """The kernel's state of the calling OS thread."""

    # The waiter of this thread's main code (a Main); None until that code first waits or spawns. In other OS threads
    # than the main one only the latter counts.
    main: Any = None
    # The Scheduler last created in guest mode on a loop of this thread; its host made that loop.
    guest: Any = None
    thread: OSThread | None = None
    # Whether coroutines of a loop in this thread may block it: see dhaga/asyncio.py.
    loop_may_block: bool = False
    # A ThreadEnd: the interpreter drops it with the thread's local data, and its finalizer ends the thread's dhagas.
    thread_end: Any = None

    def __init__(self) -> None:
        # The guest Schedulers of this thread, by their loops.
        self.guests: dict[Any, Any] = {}


this_thread: ThisThread = ThisThread()


def this_waiter() -> Waiter:
    """Return the calling waiter: a dhaga, main code, or a plain OS thread.

    Parks: never. Raises: ParkError where parking cannot work.
    """
    me = getcurrent()
    if not isinstance(me, Waiter):
        return non_dhaga_waiter(me)
    return inner_waiter(me) if me.parked else me


def clock_of(me: Waiter) -> Callable[[], float]:
    """Return the clock by which a waiter's timeouts are counted: its scheduler's; of a plain OS thread the real one."""
    return originals.monotonic if isinstance(me, OSThread) else me.scheduler.clock


def clock_here() -> Callable[[], float]:
    """Return the clock by which the caller's timeouts are counted. Raises: ParkError where parking cannot work."""
    return clock_of(this_waiter())


def scheduler_of_caller() -> Any:
    """Return the scheduler of the dhaga that calls; None if the caller is another greenlet."""
    return getattr(getcurrent(), "scheduler", None)


def non_dhaga_waiter(me: Any) -> Waiter:
    """Return the waiter of a greenlet that is no dhaga: the main code's, or the plain OS thread's.

    Raises: ParkError in a coroutine, a callback or a foreign greenlet.
    """
    loop = _get_running_loop()
    if loop is not None and not (this_thread.loop_may_block or getattr(loop, "parks", False)):
        refuse_on_loop()
    # Each read of a thread-local costs as much as a call.
    if this_thread.guests and (scheduler := scheduler_of_lap()) is not None:
        refuse_in_lap(me, scheduler)
    main = this_thread.main
    if main is not None:
        if main.own_greenlet is not me:
            refuse_in_lap(me, main.scheduler)
        return inner_waiter(main) if main.parked else main
    thread = this_thread.thread
    if thread is None:
        return first_waiter(me)
    return inner_waiter(thread) if thread.parked else thread


def in_main_thread() -> bool:
    """Return whether the caller runs in the main OS thread.

    ``current_thread()`` would make a ``Thread`` for one that ``_thread`` has started, which CPython 3.11 and 3.12 keep.
    """
    return originals.get_ident() == originals.main_thread().ident


def first_waiter(me: Any) -> Waiter:
    """Return the waiter of a thread that asks for the first time: main code in the main OS thread gets its scheduler.

    There a handler of a signal may start a dhaga in the middle of any wait: a wait that blocked the OS thread would
    never run it.
    """
    make_scheduler = hooks.on_first_wait
    if make_scheduler is not None and me.parent is None and in_main_thread():
        make_scheduler()
        return this_thread.main  # type: ignore[no-any-return]
    # With the name, wait_graph.name_of can name the thread by the greenlet that a lock knows as its owner.
    thread = this_thread.thread = OSThread()
    me.name = thread.name
    return thread


def check_own_loop() -> None:
    """Refuse a park in a coroutine on a loop that a dhaga runs, because the loop would stop while the dhaga is parked.

    From: a dhaga. Not asked at each park: a contended lock would cost 5 % more. Raises: ParkError.
    """
    loop = _get_running_loop()
    if loop is not None and not getattr(loop, "parks", False):
        raise ParkError(
            "this call would have to park, but it was made in a coroutine on a loop that a dhaga runs by the standard "
            f"asyncio, {loop!r}:\nrun that by dhaga.asyncio.run(...), or the program by python -m dhaga"
        )


def scheduler_of_lap() -> Any:
    """Return the scheduler without main code that runs a lap in this OS thread now; None if there is none.

    In a lap, the hub and foreign greenlets cannot find it by a running loop.
    """
    for scheduler in this_thread.guests.values():
        if not scheduler._lap_over:
            return scheduler
    return None


def on_event_loop() -> bool:
    """Return whether the caller, which is no dhaga, runs on an event loop of this OS thread or on a hub."""
    return _get_running_loop() is not None or scheduler_of_lap() is not None


def refuse_in_lap(me: Any, scheduler: Any) -> NoReturn:
    """Raise ParkError in a foreign greenlet in a scheduler's thread.

    The scheduler switches only dhagas, the hub and the main code: a wake would not resume a foreign greenlet.
    """
    if me is scheduler.hub:
        refuse_on_loop()
    raise ParkError("a foreign greenlet cannot park among dhagas: make the call in dhaga.spawn(...) instead")


def refuse_on_loop() -> NoReturn:
    """Raise ParkError on the hub: in a coroutine, a callback or a finalizer."""
    finalizer = finalizer_of_caller()
    if finalizer is not None:
        raise ParkError(
            f"{finalizer} would have to park, but the collection that calls it runs on the event loop, where "
            "nothing can:\nhand such work over in the finalizer: dhaga.spawn(fn, ...)"
        )
    raise ParkError(
        "this call would have to park, but it was made from the event loop itself (a coroutine, a callback or a "
        "handler):\nin a coroutine await an asynchronous version of it, or await dhaga.aio.run_in_dhaga(fn, ...), "
        f"which makes the call in a dhaga;\nin a callback also make it in a dhaga: dhaga.spawn(fn, ...){way_of_cells()}"
    )


def way_of_cells() -> str:
    """Return what lets the cells of a notebook park; empty outside notebooks."""
    in_notebook = "ipykernel" in sys.modules
    return ";\nin a notebook run %load_ext dhaga, and make the call in the next cell" if in_notebook else ""


def finalizer_of_caller() -> str | None:
    """Return the name of the ``__del__`` that the caller is in, if any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return None if frame is None else frame.f_code.co_qualname


def parking_waiter() -> Waiter | None:
    """Return the caller if it parks; None if it blocks for real.

    Plain OS threads block, and so does the event loop: asyncio itself starts processes, and reads for a moment.
    """
    try:
        me = this_waiter()
    except ParkError:
        return None
    return None if isinstance(me, OSThread) else me


def running_waiter() -> Any:
    """Return the dhaga or main code that calls; None in other greenlets and in OS threads without a scheduler."""
    me: Any = getcurrent()
    if hasattr(me, "scheduler"):
        return me
    main = this_thread.main
    return main if main is not None and main.own_greenlet is me else None


def may_yield(me: Waiter) -> bool:
    """Return whether the waiter runs, may park, and is not interrupted by a signal handler in the middle of a park."""
    return (
        not me.parked and not any(isinstance(cause, NoPark) for cause in me.pending_errors) and parking_waiter() is me
    )


def name_main_code() -> None:
    """Name the greenlet that stands for main code: it may hold a lock, which shows its name, before its first wait."""
    me: Any = getcurrent()
    if me.parent is None and in_main_thread():
        me.name = "main code"


name_main_code()
