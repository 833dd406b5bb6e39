"""The one FIFO on which every primitive rests.

A waker removes the first waiter and hands the lock, item or permit to it: the woken waiter does not check again (no
barging). The queue takes no lock: ``append`` and ``popleft`` of a deque are atomic. It holds tickets, one for each
park, and not the waiters: the waker that takes a waiter out of its ticket may resume it. A waiter that leaves by a
timeout or a cancel removes itself; the void ticket stays until a waker skips it, or half of the queue is void
(``_remove``). A waker in another OS thread may look at the empty queue just before a waiter joins it. So the waiter
joins the queue first, then checks again, and serves the queue itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat, starmap
from typing import Any

from ..faces.stdlib_face import refuse_copy
from ..fast.compiled import compiled
from ..interpreter.guards import TicketDeque
from .current import this_waiter
from .waiter import Waiter, claim

# Void tickets that are always tolerated, 64 bytes each. Above this number, half of the queue may be void.
COMPACT_ABOVE = 8


class WaitQueue(TicketDeque[list[Waiter]]):
    """The waiters for one thing, first come, first served.

    ``reason``: shown in a dump for each waiter; ``closed``: the wait is over for good, so that later waiters are served
    at once. ``epoch``, of a lock's queue: the number of waits at the lock's conditions that have begun. Each waiter
    notes the epoch on arrival; so a waiter of a condition finds its place among the waiters for the lock.
    """

    __slots__ = ("closed", "epoch", "owner_ref", "reason", "void")

    __copy__: Any = refuse_copy
    __reduce__: Any = refuse_copy

    def __init__(self, owner: object, reason: str) -> None:
        super().__init__()
        # A weak reference: without a cycle a lock is freed with its last reference.
        self.owner_ref: weakref.ref[object] = weakref.ref(owner)
        self.reason: str = reason
        self.closed: bool = False
        self.epoch: int = 0
        # The number of void tickets, approximate: two OS threads may count at once.
        self.void: int = 0

    @property
    def owner(self) -> object:
        """The object waited for: a lock, a queue, …"""
        return self.owner_ref()

    def _remove(self, waiter: Waiter) -> None:
        """Count a ticket that is about to be void, by a timeout or a cancel. Looking for it would cost O(n).

        A waker skips it. Once half are void all void ones are dropped, which costs O(1) a ticket in the long run.
        """
        self.void += 1
        if self.void > COMPACT_ABOVE and self.void * 2 > len(self):
            self.drop_void()

    def drop_void(self) -> None:
        """Drop void tickets in one rotation, in which the live ones keep their order."""
        # One call of a C function, which itself calls only C functions, such as len(): no other OS thread and no signal
        # handler can run in between. In a step-by-step rotation, a waiter that joins meanwhile would get in front of
        # earlier ones.
        # A void ticket joins first and is dropped last. So the queue never looks empty to another OS thread, which
        # would leave a lock free beside a waiter.
        last = map(self.append, ([],))
        turns = chain.from_iterable(map(repeat, ((),), map(len, (self,))))
        live = filter(None, chain(last, starmap(self.popleft, turns)))
        # Without the interpreter lock, a finalizer in this OS thread may empty the queue meanwhile.
        with suppress(IndexError):
            self.extend(live)  # atomic
        self.void = 0

    def parked(self) -> int:
        """Return the number of waiters."""
        tickets = [*self]  # atomic
        return sum(map(bool, tickets))

    @compiled  # C: an open queue
    def wait(self, available: object, serve: Callable[[], object], timeout: float | None = None) -> Any:
        """Queue up and park until served.

        If ``available`` is true by now, ``serve()`` hands it to the first in the queue: that closes the race with a
        waker in another OS thread. Returns and raises: as ``Waiter.park_within``.
        """
        me = this_waiter()
        me.prepare_park(self.reason, self)
        self.append(me.parked)
        if available or self.closed:
            try:
                serve()
            except BaseException as raised:
                # The caller goes on, and no waker may wake it.
                if claim(me.parked):
                    self._remove(me)
                    raise
                # A waker was faster, and what it hands over must not be lost.
                me.cancel_with(raised)
        return me.park_within(timeout)

    def wait_uncancellable(self, serve: Callable[[], object], arrival: int | None = None) -> Any:
        """Queue up, by ``arrival`` or at the end, and park until served: a cancel stays pending."""
        me = this_waiter()
        # No prepare_park(): a cancel that is already pending must also wait.
        me.park_on(self, arrival)
        serve()
        return me.park_until_woken()

    def begin_epoch(self) -> int:
        """Return the arrival of a waiter at a condition of this lock. From: the lock's holder."""
        self.epoch += 1
        return self.epoch

    def insert_by_arrival(self, ticket: list[Waiter], arrival: int) -> None:
        """Insert a ticket before the tickets of all waiters that came later. From: the lock's holder.

        Bisected, because thousands may wait on either side: a walk from one end would cost O(n) for each notify.
        """
        low, high = 0, len(self)
        with suppress(IndexError):  # another OS thread has released the lock meanwhile: some have gone
            while low < high:
                middle = live = (low + high) // 2
                while live < high and not self[live]:  # void
                    live += 1
                if live < high and self[live][0].arrival < arrival:
                    low = live + 1
                else:
                    high = middle
        self.insert(low, ticket)

    def take_first(self) -> Waiter | None:
        """Remove the first waiter from its ticket, to be resumed by the caller; None if none waits."""
        while self:
            try:
                return self.popleft().pop()
            # The ticket was void, or another OS thread took the last one.
            except IndexError:
                continue
        return None

    def take_last(self) -> Waiter | None:
        """Remove the last waiter from its ticket, to be resumed by the caller; None if none waits."""
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
            waiter.deliver_wake(value)
        return waiter

    def wake_all(self, value: Any = True) -> None:
        """Wake all present waiters."""
        while (waiter := self.take_first()) is not None:
            waiter.deliver_wake(value)
