"""The one FIFO on which every primitive rests.

A waker takes the first waiter out and hands it what it waits for: the sleeper does not check again (no barging). The
queue takes no lock: ``append`` and ``popleft`` of a deque are atomic. It holds tickets, one for each park, and not
the waiters: who takes the waiter out of its ticket has the right to resume it. A waiter that leaves by a timeout or a
cancel takes itself out; the void ticket stays until a waker skips it, or half of the queue is void (``_remove``).
A waker in another OS thread may look at the empty queue just before a waiter joins it. So the waiter, once in the
queue, looks at what is available again and serves the queue itself: enqueue, then try again.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any

from greenlet import getcurrent

from .compiled import compiled
from .current import non_dhaga_waiter, this_waiter
from .inner_waiter import inner_waiter
from .stdlib_face import refuse_copy
from .waiter import Waiter

# Void tickets that are always tolerated, 64 bytes each. Above, they may be half of the queue.
COMPACT_ABOVE = 8


class WaitQueue(deque[list[Waiter]]):
    """The waiters for one thing, first come, first served.

    ``reason``: what each of them shows in a dump; ``closed``: the wait is over for good, so that each waiter that still
    joins is served at once.
    """

    __slots__ = ("closed", "owner_ref", "reason", "void")

    __copy__: Any = refuse_copy
    __reduce__: Any = refuse_copy

    def __init__(self, owner: object, reason: str) -> None:
        super().__init__()
        # A weak reference: without a cycle a lock is freed with its last reference.
        self.owner_ref: weakref.ref[object] = weakref.ref(owner)
        self.reason: str = reason
        self.closed: bool = False
        # Void tickets, about: two OS threads may count at once.
        self.void: int = 0

    @property
    def owner(self) -> object:
        """The object waited for: a lock, a queue, …"""
        return self.owner_ref()

    def _remove(self, waiter: Waiter) -> None:
        """Count a ticket that is about to be void, by a timeout or a cancel. To look for it would cost O(n).

        A waker skips it. Once half are void all void ones are dropped, which costs O(1) a ticket in the long run.
        """
        self.void += 1
        if self.void > COMPACT_ABOVE and self.void * 2 > len(self):
            self.drop_void()

    def drop_void(self) -> None:
        """Drop void tickets in one rotation, in which the live ones keep their order."""
        # An empty deque is void to wakers, as a ticket is, and equals no ticket.
        end: Any = deque[Any]()
        # One call of a C function, which calls C functions alone: no other OS thread and no signal handler comes
        # between. Rotated step by step, a waiter that joins meanwhile would stand before those that came first.
        self.extend(chain((end,), filter(None, iter(self.popleft, end))))
        self.void = 0

    def parked(self) -> int:
        """Return how many wait."""
        return sum(map(bool, list(self)))

    @compiled
    def wait(self, available: object, serve: Callable[[], object], timeout: float | None = None) -> Any:
        """Queue up and park until served.

        If ``available`` is true by now, ``serve()`` hands it to the first in the queue: that closes the race with a
        waker in another OS thread. Returns and raises: as ``Waiter._park_until``.
        """
        me: Any = getcurrent()
        try:
            pending = me._pending
        # Main code and plain threads: their greenlets have no pending errors.
        except AttributeError:
            return self.wait_slow_path(non_dhaga_waiter(me), available, serve, timeout)
        if me._parked:
            return self.wait_slow_path(inner_waiter(me), available, serve, timeout)
        if pending:
            # From here on _prepare() and _park(), written out: 15 % of a contended lock.
            raise pending.pop(0)
        me._target = self
        me._reason = self.reason
        me._parked = ticket = [me]
        self.append(ticket)
        if available or self.closed:
            serve()
        if timeout is None:
            return me.scheduler._park(me)
        return me._park_until(timeout)

    def wait_slow_path(self, me: Waiter, available: object, serve: Callable[[], object], timeout: float | None) -> Any:
        """Wait as main code or a plain OS thread."""
        me._prepare(self.reason, self)
        self.append(me._parked)
        if available or self.closed:
            serve()
        return me._park_until(timeout)

    def wait_uncancellable(self, serve: Callable[[], object]) -> Any:
        """Queue up and park until served: timeouts are ignored, a cancel stays pending."""
        me = this_waiter()
        # No _prepare(): a cancel that is pending already must wait, too.
        me._park_on(self)
        serve()
        return me._park()

    def take_first(self) -> Waiter | None:
        """Take the first waiter out of its ticket, to be resumed by the caller; None if none waits."""
        while self:
            try:
                return self.popleft().pop()
            # The ticket was void, or another OS thread took the last one.
            except IndexError:
                continue
        return None

    def take_last(self) -> Waiter | None:
        """Take the last waiter out of its ticket, to be resumed by the caller; None if none waits."""
        while self:
            try:
                return self.pop().pop()
            except IndexError:
                continue
        return None

    @compiled
    def wake_first(self, value: Any = True) -> Waiter | None:
        """Wake the first waiter. Returns: that waiter; None if none waits."""
        waiter = self.take_first()
        if waiter is not None:
            waiter._resume(value)
        return waiter

    def wake_all(self, value: Any = True) -> None:
        """Wake all that wait now."""
        while (waiter := self.take_first()) is not None:
            waiter._resume(value)
