"""The FIFO queue in which waiters park. Locks, queues, events and all other primitives use this queue.

A waker removes the first waiter and hands the lock, item or permit over: the woken waiter does not check again, and no
later caller overtakes it. The queue needs no lock, because ``append`` and ``popleft`` of a deque are atomic. The queue
holds tickets, one for each park, instead of waiters: the waker that takes a waiter out of a ticket may resume the
waiter. A timeout or a cancel takes the waiter out and leaves a void ticket. The void ticket stays until a waker removes
it, or until more than half of the queue is void (``_remove``). A waker in another OS thread may see an empty queue just
before a waiter joins. The waiter therefore joins first, and then checks again whether it must wait. If the waiter need
not wait, it serves the queue itself.
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

# Up to this number of void tickets (64 bytes each) may stay. Beyond this number, at most half of the queue may be void.
COMPACT_ABOVE = 8


class WaitQueue(TicketDeque[list[Waiter]]):
    """The waiters for one object, in order of arrival.

    ``reason``: the text that a dump shows for each waiter. ``closed``: whether the wait is over for good, so that later
    waiters are served at once. ``epoch``, in a lock's queue: the number of waits at the lock's conditions so far. Each
    waiter stores the epoch of its arrival. By this epoch, a notify finds the waiter's place among the lock's waiters.
    """

    __slots__ = ("closed", "epoch", "owner_ref", "reason", "void")

    __copy__: Any = refuse_copy
    __reduce__: Any = refuse_copy

    def __init__(self, owner: object, reason: str) -> None:
        super().__init__()
        # A weak reference avoids a cycle, so that a lock is freed with its last reference.
        self.owner_ref: weakref.ref[object] = weakref.ref(owner)
        self.reason: str = reason
        self.closed: bool = False
        self.epoch: int = 0
        # The approximate number of void tickets: two OS threads may count at the same time.
        self.void: int = 0

    @property
    def owner(self) -> object:
        """The object that the waiters wait for, such as a lock."""
        return self.owner_ref()

    def _remove(self, waiter: Waiter) -> None:
        """Count a ticket that a timeout or a cancel is about to make void. The ticket stays queued: a search would cost
        O(n).

        A waker skips void tickets. Once more than half of the queue is void, all void tickets are dropped, at an
        amortized cost of O(1) a ticket.
        """
        self.void += 1
        if self.void > COMPACT_ABOVE and self.void * 2 > len(self):
            self.drop_void()

    def drop_void(self) -> None:
        """Drop void tickets in one rotation of the queue. The live tickets keep their order."""
        # ``extend`` is one call of a C function that calls only C functions, such as len(), so no other OS thread and
        # no signal handler runs in between. During a step-by-step rotation, a new waiter could get in front of earlier
        # waiters.
        # A void ticket is appended first and dropped last. Without this ticket, the queue might look empty to another
        # OS thread, and that thread would leave a lock free although a waiter is queued.
        last = map(self.append, ([],))
        turns = chain.from_iterable(map(repeat, ((),), map(len, (self,))))
        live = filter(None, chain(last, starmap(self.popleft, turns)))
        # On a build without the interpreter lock, a finalizer in this OS thread may empty the queue meanwhile.
        with suppress(IndexError):
            self.extend(live)  # atomic
        self.void = 0

    def parked(self) -> int:
        """Return the number of waiters."""
        tickets = [*self]  # atomic
        return sum(map(bool, tickets))

    @compiled  # in C only for an open queue
    def wait(self, available: object, serve: Callable[[], object], timeout: float | None = None) -> Any:
        """Join the queue and park until served.

        If ``available`` is true after the caller has joined, ``serve()`` serves the first waiter. This closes the race
        with a waker in another OS thread. Returns and raises: the same as ``Waiter.park_within``.
        """
        me = this_waiter()
        me.prepare_park(self.reason, self)
        self.append(me.parked)
        if available or self.closed:
            try:
                serve()
            except BaseException as raised:
                self.leave_with(raised, me)
        return me.park_within(timeout)

    def leave_with(self, error: BaseException, me: Waiter) -> None:
        """Remove the caller, who has queued up but not parked yet, and raise the error. From: an ``except`` block.

        If a waker was faster, its value must not be lost: the error stays pending until the next park.
        """
        if not claim(me.parked):
            me.cancel_with(error)
            return
        self._remove(me)
        me.wait_target = me._value = None
        raise

    def wait_uncancellable(self, serve: Callable[[], object], arrival: int | None = None) -> Any:
        """Join the queue, by ``arrival`` or at the end, and park until served. A cancel stays pending."""
        me = this_waiter()
        # No prepare_park(): a cancel that is already pending must also wait.
        me.park_on(self, arrival)
        serve()
        return me.park_until_woken()

    def begin_epoch(self) -> int:
        """Begin a new epoch for a waiter at a condition of this lock, and return the epoch. From: the lock's holder."""
        self.epoch += 1
        return self.epoch

    def insert_by_arrival(self, ticket: list[Waiter], arrival: int) -> None:
        """Insert a ticket before those of all waiters of the same or a later epoch. From: the lock's holder.

        The place is found by bisection, because a search from one end would cost O(n) for each notify.
        """
        low, high = 0, len(self)
        with suppress(IndexError):  # another OS thread has released the lock meanwhile: some waiters have left
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
        """Remove and return the first waiter, which the caller must resume. Returns: None if there is no waiter."""
        while self:
            try:
                return self.popleft().pop()
            # The ticket was void, or another OS thread has taken the last ticket.
            except IndexError:
                continue
        return None

    def take_last(self) -> Waiter | None:
        """Remove and return the last waiter, which the caller must resume. Returns: None if there is no waiter."""
        while self:
            try:
                return self.pop().pop()
            except IndexError:
                continue
        return None

    @compiled
    def wake_first(self, value: Any = True) -> Waiter | None:
        """Wake the first waiter. Returns: the woken waiter; None if there is no waiter."""
        waiter = self.take_first()
        if waiter is not None:
            waiter.deliver_wake(value)
        return waiter

    def wake_all(self, value: Any = True) -> None:
        """Wake all present waiters."""
        while (waiter := self.take_first()) is not None:
            waiter.deliver_wake(value)
