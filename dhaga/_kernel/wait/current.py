"""Functions that find the calling waiter: a dhaga, the main code of a scheduler's thread, or a plain OS thread.

``ThisThread`` is the kernel's thread-local state. No patch affects it, because its base is the unpatched
``threading.local``.
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
from .inner_waiter import inner_waiter, is_woken
from .thread_waiter import OSThread
from .waiter import Waiter


class ThisThread(originals.local):
    """The kernel's state of the calling OS thread."""

    # The waiter of this thread's main code (a Main); None until the main code has a scheduler. The main code gets its
    # scheduler at its first spawn or, in the main OS thread, at its first wait.
    main: Any = None
    # The Scheduler last created in guest mode, on a loop of this thread that the host program made.
    guest: Any = None
    thread: OSThread | None = None
    # Whether coroutines may block the loop of this thread: see dhaga/asyncio.py.
    loop_may_block: bool = False
    # A ThreadEnd: the interpreter frees it with the thread's local data, and its finalizer ends the thread's dhagas.
    thread_end: Any = None

    def __init__(self) -> None:
        # The guest Schedulers of this thread, by loop.
        self.guests: dict[Any, Any] = {}


this_thread: ThisThread = ThisThread()


def this_waiter() -> Waiter:
    """Return the calling waiter: a dhaga, main code, or a plain OS thread.

    Parks: never. Raises: ParkError where parking cannot work.
    """
    me = getcurrent()
    if not isinstance(me, Waiter):
        return non_dhaga_waiter(me)
    return inner_waiter(me) if me.parked or (me.wait_target is not None and is_woken(me)) else me


def clock_of(me: Waiter) -> Callable[[], float]:
    """Return the clock for a waiter's timeouts: its scheduler's clock, or the real clock for a plain OS thread."""
    return originals.monotonic if isinstance(me, OSThread) else me.scheduler.clock


def clock_here() -> Callable[[], float]:
    """Return the clock for the caller's timeouts. Raises: ParkError where parking cannot work."""
    return clock_of(this_waiter())


def scheduler_of_caller() -> Any:
    """Return the scheduler of the calling dhaga; None if the caller is another greenlet."""
    return getattr(getcurrent(), "scheduler", None)


def non_dhaga_waiter(me: Any) -> Waiter:
    """Return the waiter of a greenlet that is not a dhaga: the waiter of the main code or of the plain OS thread.

    Raises: ParkError in a coroutine, a callback or a foreign greenlet.
    """
    loop = _get_running_loop()
    if loop is not None and not (this_thread.loop_may_block or getattr(loop, "parks", False)):
        refuse_on_loop()
    # A read of a thread-local takes as long as a call, so each attribute is read only once.
    if this_thread.guests and (scheduler := scheduler_of_lap()) is not None:
        refuse_in_lap(me, scheduler)
    main = this_thread.main
    if main is not None:
        if main.own_greenlet is not me:
            refuse_in_lap(me, main.scheduler)
        return inner_waiter(main) if main.parked or (main.wait_target is not None and is_woken(main)) else main
    thread = this_thread.thread
    if thread is None:
        return first_waiter(me)
    return inner_waiter(thread) if thread.parked or thread._woken else thread


def in_main_thread() -> bool:
    """Return whether the caller runs in the main OS thread.

    Idents are compared because ``current_thread()`` would make a ``Thread`` object for a thread started by ``_thread``,
    and CPython 3.11 and 3.12 would keep the object.
    """
    return originals.get_ident() == originals.main_thread().ident


def first_waiter(me: Any) -> Waiter:
    """Return a new waiter for a thread's first wait. In the main OS thread, make the scheduler of the main code.

    In the main OS thread a signal handler may start a dhaga during any wait. If the wait blocked the OS thread, the
    dhaga would never run.
    """
    make_scheduler = hooks.on_first_wait
    if make_scheduler is not None and me.parent is None and in_main_thread():
        make_scheduler()
        return this_thread.main  # type: ignore[no-any-return]
    # A lock knows its owner as a greenlet. So wait_graph.name_of reads the thread's name from the greenlet.
    thread = this_thread.thread = OSThread()
    me.name = thread.name
    return thread


def check_own_loop() -> None:
    """Refuse a park in a coroutine on a loop that a dhaga runs, because the loop would stop while the dhaga is parked.

    From: a dhaga, in some of its parks. A check in each park would make a contended lock 5 % slower. Raises: ParkError.
    """
    loop = _get_running_loop()
    if loop is not None and not getattr(loop, "parks", False):
        raise ParkError(
            "this call would have to park, but it was made in a coroutine on a loop that a dhaga runs by the standard "
            f"asyncio, {loop!r}:\nrun that by dhaga.asyncio.run(...), or the program by python -m dhaga"
        )


def scheduler_of_lap() -> Any:
    """Return the guest scheduler that runs a lap in this OS thread now; None if there is no such scheduler.

    During a lap (in which a scheduler runs its dhagas) asyncio's running loop is None. So the hub and foreign
    greenlets cannot find the scheduler through the loop.
    """
    for scheduler in this_thread.guests.values():
        if not scheduler._lap_over:
            return scheduler
    return None


def on_event_loop() -> bool:
    """Return whether the caller runs on an event loop of this OS thread or on a hub. From: code outside dhagas."""
    return _get_running_loop() is not None or scheduler_of_lap() is not None


def refuse_in_lap(me: Any, scheduler: Any) -> NoReturn:
    """Raise ParkError for a foreign greenlet or the hub in a scheduler's thread.

    The scheduler switches only to dhagas, the hub and the main code, so a wake would not resume a foreign greenlet.
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
    """Return a hint on parking in the cells of a notebook; an empty text outside notebooks."""
    in_notebook = "ipykernel" in sys.modules
    return ";\nin a notebook run %load_ext dhaga, and make the call in the next cell" if in_notebook else ""


def finalizer_of_caller() -> str | None:
    """Return the name of the ``__del__`` method in which the caller runs; None if there is no such method."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return None if frame is None else frame.f_code.co_qualname


def parking_waiter() -> Waiter | None:
    """Return the calling waiter if its waits park; None if its waits block the OS thread.

    Waits block in plain OS threads and on the event loop. On the loop they are short: asyncio itself makes blocking
    calls there, such as reads and starts of processes.
    """
    try:
        me = this_waiter()
    except ParkError:
        return None
    return None if isinstance(me, OSThread) else me


def running_waiter() -> Any:
    """Return the calling dhaga or main code; None in other greenlets and in OS threads without a scheduler."""
    me: Any = getcurrent()
    if hasattr(me, "scheduler"):
        return me
    main = this_thread.main
    return main if main is not None and main.own_greenlet is me else None


def may_yield(me: Waiter) -> bool:
    """Return whether the waiter runs and may park: it is neither in ``no_park()`` nor interrupted during a park."""
    return (
        not me.parked and not any(isinstance(cause, NoPark) for cause in me.pending_errors) and parking_waiter() is me
    )


def name_main_code() -> None:
    """Name the greenlet of the main code. A lock that the main code holds before its first wait shows this name."""
    me: Any = getcurrent()
    if me.parent is None and in_main_thread():
        me.name = "main code"


name_main_code()
