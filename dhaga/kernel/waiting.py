"""Waiting: who waits here, and the one FIFO on which every primitive rests."""

from __future__ import annotations

import weakref
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from . import originals
from .errors import ParkError
from .osthread import OSThread
from .waiter import BOUND, Waiter


class Here(originals.local):
    """What the kernel knows of the OS thread it is called in."""

    main: Any = None  # the Main of this thread, once its main code has met a scheduler
    guest: Any = None  # the Scheduler on the loop of somebody else that runs in this thread
    thread: OSThread | None = None
    blocks = False  # whether the coroutines of a loop in this thread may block it: see dhaga/asyncio.py
    end: Any = None  # what is dropped, and so acts, when the thread ends


here = Here()


def this_waiter() -> Waiter:
    """Return who is running: a dhaga, the main code of a scheduler's thread, or a plain OS thread.

    Parks: never. Raises: ParkError where parking cannot work.
    """
    me = getcurrent()
    return me if isinstance(me, Waiter) else outsider(me)


def outsider(me: Any) -> Waiter:
    loop = _get_running_loop()
    if loop is not None and not (here.blocks or getattr(loop, "parks", False)):
        raise ParkError(
            "this call would have to park, but it was made from the event loop itself (a coroutine, a callback or a "
            "handler): in a coroutine await an asynchronous version of it, or await dhaga.aio.run_in_dhaga(fn, ...), "
            "which makes the call in a dhaga; in a callback make it in a dhaga, too: dhaga.spawn(fn, ...)"
        )
    main = here.main
    if main is not None:
        if main.greenlet is not me:
            raise ParkError("a foreign greenlet cannot park among dhagas: make the call in dhaga.spawn(...) instead")
        return main  # type: ignore[no-any-return]
    if here.thread is None:
        here.thread = OSThread()
        me.name = here.thread.name
    return here.thread


def name_of(holder: Any) -> str:
    """Name whoever holds something: a dhaga, or the greenlet that stands for main code or a plain thread."""
    return getattr(holder, "name", "a plain thread")


class WaitQueue(deque[Waiter]):
    """Everybody who waits for one thing, first come, first served.

    ``reason`` is what each of them shows in a dump; ``closed``: there is nothing to wait for any more, so that
    whoever still comes is to be served at once.
    """

    __slots__ = ("closed", "reason", "whose")

    def __init__(self, owner: object, reason: str) -> None:
        super().__init__()
        self.whose = weakref.ref(owner)  # no cycle: a lock is to go with its last reference
        self.reason = reason
        self.closed = False

    @property
    def owner(self) -> object:
        """The thing they wait for: a lock, a queue, …"""
        return self.whose()

    def wait(self, stock: object, serve: Callable[[], object], timeout: float | None = None) -> Any:
        """Queue up and park until served.

        If there is something in ``stock`` now, ``serve()`` hands it to whoever is first: that closes the race with a
        waker in another OS thread that looked at the empty queue just before. Returns and raises what ``Waiter.park``
        does.
        """
        me: Any = getcurrent()
        try:
            pending = me.pending
        except AttributeError:  # not a dhaga
            return self.wait_outside(outsider(me), stock, serve, timeout)
        if pending:  # prepare() and park(), written out: 15 % of a contended lock
            raise pending.pop(0)
        me.place = self
        me.parked.append(self.reason)
        self.append(me)
        if stock or self.closed:
            serve()
        if timeout is None:
            return me.scheduler.park(me)
        return me.park(timeout)

    def wait_outside(self, me: Waiter, stock: object, serve: Callable[[], object], timeout: float | None) -> Any:
        me.prepare(self.reason, self)
        self.append(me)
        if stock or self.closed:
            serve()
        return me.park(timeout)

    def wait_bound(self, serve: Callable[[], object]) -> Any:
        """Queue up and park until served, whatever cancels and timeouts say meanwhile."""
        me = this_waiter()
        me.place = BOUND
        me.parked.append(self.reason)
        self.append(me)
        serve()
        return me.park()

    def wake_first(self, value: Any = True) -> Waiter | None:
        """Wake the first one that still waits; None if nobody does."""
        while self:
            try:
                waiter = self.popleft()
            except IndexError:  # another OS thread took the last one
                break
            if waiter.unpark(value):
                return waiter
        return None

    def wake_all(self, value: Any = True) -> None:
        """Wake everybody who waits now."""
        while self:
            try:
                waiter = self.popleft()
            except IndexError:  # another OS thread took the last one
                return
            waiter.unpark(value)
