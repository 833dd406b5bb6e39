"""What everybody calls: spawn, sleep, park, current, Timeout. Each finds the scheduler of its caller by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import Context
from types import TracebackType
from typing import Any, Self, TypeVar

from greenlet import getcurrent

from .callers import scheduler_here
from .errors import Expired
from .microthread import Dhaga, Main
from .priorities import HIGH, LOW, NORMAL, Priority
from .scheduler import Scheduler, sleep
from .timers import Entry
from .waiter import Waiter
from .waiting import this_waiter

R = TypeVar("R")


def spawn(
    fn: Callable[..., R],
    /,
    *args: Any,
    name: str | None = None,
    daemon: bool = False,
    priority: Priority = NORMAL,
    context: Context | None = None,
    **kwargs: Any,
) -> Dhaga[R]:
    """Start a dhaga that calls ``fn(*args, **kwargs)`` on the caller's scheduler, when its turn comes.

    Parks: never. From: a dhaga, main code, a coroutine or callback of a running loop. ``daemon``: cancelled, not
    waited for, at interpreter exit; ``priority``: HIGH, NORMAL or LOW, see ``dhaga.priority``; ``context``: its context
    variables, by default a copy of the caller's. A function that takes an argument of one of these names:
    ``functools.partial``. Raises: TypeError.
    """
    me: Any = getcurrent()
    try:
        scheduler = me.scheduler
    except AttributeError:  # not a dhaga
        scheduler = scheduler_here()
    dhaga: Dhaga[R] = Dhaga(scheduler, fn, args, kwargs or None, name, daemon, context, priority)
    scheduler.admit(dhaga)
    return dhaga


@contextlib.contextmanager
def priority(level: Priority) -> Iterator[None]:
    """Run a block of the caller with another priority: HIGH, NORMAL or LOW. ``spawn`` has it as an argument, too.

    A HIGH dhaga that becomes runnable runs next; a LOW one when nobody else can. Nobody starves: whatever
    the others do, one NORMAL and one LOW dhaga have a turn in every second lap of 1 ms (or of one turn that takes
    longer). ``sleep(0)`` lets all that are HIGH or NORMAL have a turn. What a block spawns is NORMAL again.
    Parks: never; it counts from the next wake. From: a dhaga, main code. Raises: TypeError, ParkError.
    """
    me = current()
    former = me.rank
    me.belong(me.scheduler, level)
    try:
        yield
    finally:
        me.belong(me.scheduler, former)


def current() -> Dhaga | Main:
    """Return the dhaga that runs, or the stand-in of the main code, which parks and is woken like one.

    Parks: never. Raises: ParkError on the hub and in coroutines, where neither runs.
    """
    me = getcurrent()
    if isinstance(me, Dhaga):
        return me
    waiter = this_waiter()
    return waiter if isinstance(waiter, Main) else scheduler_here().main  # type: ignore[return-value]


def park(
    reason: str,
    undo: Callable[[], object] | None = None,
    timeout: float | None = None,
    *,
    start: Callable[[], object] | None = None,
) -> Any:
    """Suspend the caller until somebody calls its ``wake``; see ``current()``. The door under all of Dhaga's waiting.

    Parks: ``reason``. From: a dhaga, main code. ``undo()`` takes the caller off what it waits for, and runs before a
    timeout or a cancel ends the park; where it raises ValueError or returns False, a wake is under way and wins.
    ``start()`` runs once the caller counts as parked: from there on a wake by another OS thread cannot come too
    early.
    Returns: the wake's value. Raises: the wake's error, TimeoutError, Cancelled, ParkError.
    """
    me = current()
    me.prepare(reason, None if undo is None else PublicUndo(undo))
    if start is not None:
        try:
            start()
        except BaseException:
            me.unpark()  # nothing will: come back through the run queue, then say why
            me.park()
            raise
    if timeout is not None and timeout <= 0:
        me.expire()
    return me.park(timeout)


class PublicUndo:
    """The place of a public park, which tells how to leave it by a function without arguments."""

    __slots__ = ("owner", "undo")
    for_all = True

    def __init__(self, undo: Callable[[], object]) -> None:
        self.undo = undo
        self.owner = getattr(undo, "__self__", None)

    def remove(self, waiter: Waiter) -> object:
        return self.undo()


class Timeout:
    """Bound a block: what is still parked in it after ``seconds`` is undone, and the block raises TimeoutError.

    Nests: each block turns only its own expiry into TimeoutError. Inside, it travels as a ``BaseException``
    (``Expired``), so that ``except OSError`` around a socket call does not take it for the network's. None: no bound.
    ``expired`` tells.
    Parks: never. From: a dhaga, main code. A ``with`` block each; one that does not park is not interrupted.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and seconds != seconds:
            raise ValueError("a Timeout needs seconds or None, not NaN")
        self.seconds = seconds
        self.entered = self.expired = False
        self.error: Expired | None = None
        self.entry: Entry | None = None
        self.waiter: Dhaga | Main | None = None

    def __repr__(self) -> str:
        return f"<Timeout {self.seconds} s{', expired' if self.expired else ''}>"

    def __enter__(self) -> Self:
        if self.entered:
            raise RuntimeError(f"{self!r} is entered already or was used before: make one for each block")
        self.waiter = current()
        self.entered = True
        if self.seconds is not None:
            scheduler = self.waiter.scheduler
            self.entry = scheduler.timers.add(scheduler.clock() + self.seconds, self)
        return self

    def expire(self) -> None:
        """Interrupt the block; called by the scheduler."""
        assert self.waiter is not None and self.entry is not None
        self.expired = True
        self.error = Expired(self, self.entry[1])
        self.waiter.interrupt(self.error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        waiter, self.waiter = self.waiter, None
        mine, self.error = self.error, None  # no reference stays: it would make a cycle
        assert waiter is not None
        if self.entry is not None:
            waiter.scheduler.timers.discard(self.entry)
        if mine is not None and mine in waiter.pending:
            waiter.pending.remove(mine)
        if mine is not None and mine is error:
            raise TimeoutError(f"not done within {self.seconds} s") from error


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
