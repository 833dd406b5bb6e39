"""The public calls of the kernel: spawn, sleep, park, current, priority. Each uses the caller's scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, ParamSpec, TypeVar, overload

from greenlet import getcurrent

from .context_manager import contextmanager
from .faces.arguments import check_seconds
from .process import preemption_watcher  # noqa: F401  (starts with the first preemptive scheduler)
from .process.current_scheduler import current_scheduler
from .run.main_code import Main
from .run.microthread import Dhaga
from .run.run_queues import HIGH, LOW, NORMAL, Priority
from .run.scheduler import Scheduler, sleep
from .wait.current import this_waiter
from .wait.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")


# Type checkers check the arguments of ``fn`` only in the last overload: PEP 612 allows no keyword parameter beside
# ``P.kwargs``.
@overload
def spawn(
    fn: Callable[..., R],
    /,
    *args: Any,
    name: str | None,
    daemon: bool = ...,
    priority: Priority = ...,
    context: Context | None = ...,
    **kwargs: Any,
) -> Dhaga[R]: ...
@overload
def spawn(
    fn: Callable[..., R],
    /,
    *args: Any,
    daemon: bool,
    priority: Priority = ...,
    context: Context | None = ...,
    **kwargs: Any,
) -> Dhaga[R]: ...
@overload
def spawn(
    fn: Callable[..., R], /, *args: Any, priority: Priority, context: Context | None = ..., **kwargs: Any
) -> Dhaga[R]: ...
@overload
def spawn(fn: Callable[..., R], /, *args: Any, context: Context | None, **kwargs: Any) -> Dhaga[R]: ...
@overload
def spawn(fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Dhaga[R]: ...
def spawn(  # type: ignore[misc]  # P.kwargs may contain keywords of spawn
    fn: Callable[..., R],
    /,
    *args: Any,
    name: str | None = None,
    daemon: bool = False,
    priority: Priority = NORMAL,
    context: Context | None = None,
    **kwargs: Any,
) -> Dhaga[R]:
    """Start a dhaga that calls ``fn(*args, **kwargs)``: append it to the run queue of the caller's scheduler.

    Parks: never. From: a dhaga, main code, a coroutine or callback of a running loop. ``daemon``: whether interpreter
    exit cancels the dhaga instead of joining it. ``priority``: HIGH, NORMAL or LOW, see ``dhaga.priority``.
    ``context``: the dhaga's context variables, by default a copy of the caller's. To pass ``fn`` an argument with one
    of these names, use ``functools.partial``. Raises: TypeError.

    >>> import dhaga
    >>> dhaga.spawn(pow, 2, 10).result()
    1024
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
    # Main code and the hub are plain greenlets without a scheduler. A dhaga, the common case, needs no type check.
    except AttributeError:
        scheduler = current_scheduler()
    dhaga: Dhaga[R] = Dhaga(scheduler, fn, args, kwargs or None, name, daemon, context, priority)
    scheduler.admit(dhaga)
    return dhaga


@contextmanager
def priority(level: Priority) -> Iterator[None]:
    """Set the caller's priority for a block: HIGH, NORMAL or LOW. ``spawn`` also accepts a priority.

    A HIGH dhaga that becomes runnable runs next; a LOW dhaga runs when no other dhaga is runnable. Starvation is
    bounded: after every two full laps, one NORMAL and one LOW dhaga run. Dhagas run in laps: a lap is the time between
    two rounds of the event loop. A lap is full after 1 ms, or later if a dhaga does not switch by then. ``sleep(0)``
    lets every runnable HIGH and NORMAL dhaga run once. Dhagas spawned in the block are NORMAL. Parks: never; the
    priority takes effect at the next wake. From: a dhaga, main code. Raises: TypeError, ParkError.
    """
    me = current()
    former = me.own_priority
    me._assign_to(me.scheduler, level)
    try:
        yield
    finally:
        me._assign_to(me.scheduler, former)


def current() -> Dhaga | Main:
    """Return the running dhaga; in main code, return the main code's waiter, which parks and is woken like a dhaga.

    Parks: never. Raises: ParkError on the hub and in coroutines, where neither a dhaga nor main code runs.

    >>> import dhaga
    >>> dhaga.spawn(lambda: dhaga.current().name, name="backup-3").result()
    'backup-3'
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me
    waiter = this_waiter()
    return waiter if isinstance(waiter, Main) else current_scheduler().main_waiter  # type: ignore[return-value]


def park(
    reason: str,
    undo: Callable[[], object] | None = None,
    timeout: float | None = None,
    *,
    start: Callable[[], object] | None = None,
) -> Any:
    """Suspend the caller until its method ``wake`` is called. New kinds of waits can be built on ``park``.

    Parks: ``reason``. From: a dhaga, main code. The waker calls the method ``wake`` of the caller's ``current()``.
    Before a timeout or a cancel ends the park, ``undo()`` removes the caller from the awaited object. If ``undo()``
    returns False or raises ValueError, a wake is under way and wins. ``start()`` runs when the caller already counts as
    parked, so that no wake by another OS thread comes too early.
    Returns: the wake's value. Raises: the wake's error, TimeoutError, Cancelled, ParkError, ValueError (NaN).

    >>> import dhaga
    >>> reader = dhaga.spawn(dhaga.park, "news")
    >>> dhaga.sleep(0)  # the reader runs and parks
    >>> reader.wake("rain"), reader.result()
    (True, 'rain')
    """
    check_seconds(timeout)
    me = current()
    me.prepare_park(reason, None if undo is None else UndoTarget(undo))
    if start is not None:
        try:
            start()
        except BaseException:
            # start() failed, so no waker knows of this park. The caller wakes itself, because a waiter leaves the
            # parked state only by a wake and a turn in the run queue.
            me.wake_parked()
            me.park_until_woken()
            raise
    if timeout is not None and timeout <= 0:
        me._expire()
    return me.park_until_woken(timeout)


class UndoTarget:
    """The wait target of a ``park`` call. Its undo is a function without arguments."""

    __slots__ = ("owner", "undo")
    for_all = True

    def __init__(self, undo: Callable[[], object]) -> None:
        self.undo = undo
        self.owner = getattr(undo, "__self__", None)

    def _remove(self, waiter: Waiter) -> object:
        return self.undo()


__all__ = [
    "HIGH",
    "LOW",
    "NORMAL",
    "Dhaga",
    "Priority",
    "Scheduler",
    "current",
    "park",
    "priority",
    "sleep",
    "spawn",
]
