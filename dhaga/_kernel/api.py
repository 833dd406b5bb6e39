"""Public calls of the kernel: spawn, sleep, park, current, priority, Timeout. Each finds the caller's scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from greenlet import getcurrent

from .context_manager import contextmanager
from .errors import Expired
from .faces.arguments import check_seconds, checked_timeout
from .faces.foreign_names import OF_A_TIMEOUT, refuse_async_with, say_foreign_names
from .process import preemption_watcher  # noqa: F401  (starts with the first preemptive scheduler)
from .process.current_scheduler import current_scheduler
from .run.main_code import Main
from .run.microthread import Dhaga
from .run.run_queues import HIGH, LOW, NORMAL, Priority
from .run.scheduler import Scheduler, sleep
from .run.timers import Entry
from .wait.current import this_waiter
from .wait.waiter import Waiter

P = ParamSpec("P")
R = TypeVar("R")


# Type checkers check the arguments of ``fn`` only if all arguments are its own (PEP 612 allows no keyword between
# them).
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
def spawn(  # type: ignore[misc]  # P.kwargs may name ours
    fn: Callable[..., R],
    /,
    *args: Any,
    name: str | None = None,
    daemon: bool = False,
    priority: Priority = NORMAL,
    context: Context | None = None,
    **kwargs: Any,
) -> Dhaga[R]:
    """Start a dhaga that calls ``fn(*args, **kwargs)`` on the caller's scheduler, at its place in the run queue.

    Parks: never. From: a dhaga, main code, a coroutine or callback of a running loop. ``daemon``: cancelled at
    interpreter exit instead of joined; ``priority``: HIGH, NORMAL or LOW, see ``dhaga.priority``; ``context``: its
    context variables, by default a copy of the caller's. If ``fn`` has a parameter of one of these names, use
    ``functools.partial``. Raises: TypeError.

    >>> import dhaga
    >>> dhaga.spawn(pow, 2, 10).result()
    1024
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
    # Main code and the hub are plain greenlets. EAFP saves the common case, a dhaga, an isinstance check.
    except AttributeError:
        scheduler = current_scheduler()
    dhaga: Dhaga[R] = Dhaga(scheduler, fn, args, kwargs or None, name, daemon, context, priority)
    scheduler.admit(dhaga)
    return dhaga


@contextmanager
def priority(level: Priority) -> Iterator[None]:
    """Run a block of the caller with another priority: HIGH, NORMAL or LOW. ``spawn`` also takes it as an argument.

    A HIGH dhaga that becomes runnable runs next; a LOW one runs when no other is runnable. Starvation is bounded: one
    NORMAL and one LOW dhaga run in every second lap of 1 ms (or of one turn that takes longer). ``sleep(0)`` lets every
    HIGH and NORMAL dhaga run once. Dhagas spawned in the block are NORMAL.
    Parks: never; the priority takes effect at the next wake. From: a dhaga, main code. Raises: TypeError, ParkError.
    """
    me = current()
    former = me.own_priority
    me._assign_to(me.scheduler, level)
    try:
        yield
    finally:
        me._assign_to(me.scheduler, former)


def current() -> Dhaga | Main:
    """Return the running dhaga, or the waiter of the main code, which parks and is woken like a dhaga.

    Parks: never. Raises: ParkError on the hub and in coroutines, where neither runs.

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
    """Suspend the caller until a call of its ``wake``; see ``current()``. All waits of Dhaga are built on it.

    Parks: ``reason``. From: a dhaga, main code. ``undo()`` removes the caller from what it waits for, and runs before a
    timeout or a cancel ends the park; if it raises ValueError or returns False, a wake is under way and wins.
    ``start()`` runs once the caller counts as parked, so that a wake by another OS thread cannot come too early.
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
            # start() failed: no waker knows of this park. A waiter leaves the parked state only by a wake and its turn
            # in the run queue, also in this case.
            me.wake_parked()
            me.park_until_woken()
            raise
    if timeout is not None and timeout <= 0:
        me._expire()
    return me.park_until_woken(timeout)


class UndoTarget:
    """Wait target of a public park: its undo is a function without arguments."""

    __slots__ = ("owner", "undo")
    for_all = True

    def __init__(self, undo: Callable[[], object]) -> None:
        self.undo = undo
        self.owner = getattr(undo, "__self__", None)

    def _remove(self, waiter: Waiter) -> object:
        return self.undo()


@refuse_async_with("async with asyncio.timeout(...)")
class Timeout:
    """Bound a block: a park in it that lasts beyond ``seconds`` is undone, and the block raises TimeoutError.

    Nests: each block turns only its own expiry into TimeoutError. Inside, the expiry travels as a ``BaseException``
    (``Expired``), so that ``except OSError`` around a socket call lets it pass. None: no bound. ``expired`` reports the
    outcome. ``error``: an exception, or a class of them, that is raised instead of TimeoutError.
    Parks: never. From: a dhaga, main code. One ``with`` block per object. A block that computes is interrupted
    where the program asks for preemption (CPython 3.12 and newer), else not before its next park.
    Raises: ValueError, TypeError.

    >>> import dhaga
    >>> with dhaga.Timeout(0.01):
    ...     dhaga.sleep(1)
    Traceback (most recent call last):
    TimeoutError: not done within 0.01 s
    """

    def __init__(self, seconds: float | None, error: BaseException | type[BaseException] | None = None) -> None:
        self.seconds: float | None = checked_timeout(seconds)
        if error is not None:
            check_error(error)
        self._raised_instead = error
        self.entered: bool = False
        self.expired: bool = False
        self.error: Expired | None = None
        self.entry: Entry | None = None
        self._waiter: Dhaga | Main | None = None

    def __repr__(self) -> str:
        return f"<Timeout {self.seconds} s{', expired' if self.expired else ''}>"

    def __enter__(self) -> Self:
        if self.entered:
            raise RuntimeError(f"{self!r} is already entered or was used before: make one for each block")
        self._waiter = current()
        self.entered = True
        if self.seconds is not None:
            scheduler = self._waiter.scheduler
            self.entry = scheduler.expire_after(self.seconds, self)
        return self

    def _expire(self) -> None:
        """Interrupt the block. From: the scheduler's timers, on the hub."""
        assert self._waiter is not None and self.entry is not None
        self.expired = True
        self.error = Expired(self, self.entry[1])
        self._waiter.cancel_with(self.error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        waiter, self._waiter = self._waiter, None
        # The error refers to this Timeout; a reference left here would make a cycle.
        own_error, self.error = self.error, None
        assert waiter is not None
        if self.entry is not None:
            waiter.scheduler.timers.discard(self.entry)
        # The block ended after the expiry but before its next park: the pending expiry would be raised in code outside.
        if own_error is not None and own_error in waiter.pending_errors:
            waiter.pending_errors.remove(own_error)
        if own_error is not None and own_error is error:
            if self._raised_instead is not None:
                raise self._raised_instead from error
            raise TimeoutError(f"not done within {self.seconds} s") from error


say_foreign_names(Timeout, OF_A_TIMEOUT)


def check_error(error: object) -> None:
    """Check the error that a Timeout is to raise. Raises: TypeError."""
    if error is False:
        raise TypeError("a Timeout raises an error; for a silent one: with dhaga.move_on_after(seconds): ...")
    if not isinstance(error, BaseException) and not (isinstance(error, type) and issubclass(error, BaseException)):
        raise TypeError(f"the error of a Timeout is an exception or a class of them, not {error!r}")


__all__ = [
    "HIGH",
    "LOW",
    "NORMAL",
    "Dhaga",
    "Priority",
    "Scheduler",
    "Timeout",
    "current",
    "park",
    "priority",
    "sleep",
    "spawn",
]
