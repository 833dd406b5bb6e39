"""The waiter of a finalizer that interrupts a dhaga during a park and itself parks.

A garbage collection may call ``__del__`` between the two halves of a wait (``waiter.py``). At this moment the dhaga
counts as parked and is in a queue, but has not switched away yet. If the finalizer then parked as the dhaga, for
example for a contended lock, the dhaga would have two parks. But a waiter has only one ticket (the record of its park).
So the finalizer parks with an ``InnerWaiter`` of its own, on the same greenlet. If the outer park is woken meanwhile,
this wake takes effect after the finalizer.
The same holds if the dhaga was woken between the halves, or yields: it is in its run queue (``is_woken``).
The outer waiter may be queued for the lock that the finalizer needs. If the lock were handed to the outer waiter first,
the finalizer would wait for it forever. So the waiter of a finalizer goes to the front of a lock's queue.
On the hub a finalizer cannot park at all: see ``current.py``.
"""

from __future__ import annotations

from typing import Any

from .thread_waiter import OSThread
from .waiter import Waiter

FIRST = -1
"""An arrival before the arrivals of all other waiters, which are at least 0."""


class FirstInQueue(Waiter):
    """Base class of the waiters of finalizers, which go to the front of a lock's queue."""

    __slots__ = ()

    def join_lock(self, queue: Any) -> None:
        """Join a lock's queue in front. From: the waiter itself, after ``prepare_park``."""
        self.arrival = FIRST
        queue.insert(0, self.parked)

    def park_on(self, queue: Any, arrival: int | None = None) -> None:
        super().park_on(queue, FIRST)


class InnerThread(FirstInQueue, OSThread):
    """A second waiter of a plain OS thread."""

    __slots__ = ()


class InnerWaiter(FirstInQueue):
    """A second waiter on the greenlet of ``outer``, for code that runs while ``outer`` counts as parked."""

    __slots__ = (
        "_error",
        "_outer",
        "_value",
        "_was_switched_to",
        "arrival",
        "ident",
        "name",
        "own_priority",
        "park_reason",
        "parked",
        "parked_since",
        "pending_errors",
        "scheduler",
        "wait_target",
        "wake_queue",
    )

    def __init__(self, outer: Any) -> None:
        self._outer = outer
        self._assign_to(outer.scheduler, outer.own_priority)
        self.ident = outer.ident
        self.name = outer.name
        self._was_switched_to = False
        self._init_wait()

    def __repr__(self) -> str:
        return f"<Finalizer in {self.name} {'WAITING ' + self.park_reason if self.parked else 'RUNNING'}>"

    def switch(self) -> None:
        """Resume the code after the inner park. From: the scheduler, which finds this waiter in its run queue."""
        self._was_switched_to = True
        self.scheduler._switch_to(self._outer)

    def park_within(self, timeout: float | None) -> Any:
        """Park like a dhaga until this waiter is woken, even if wakes of the outer park resume this greenlet
        meanwhile.
        """
        scheduler, outer = self.scheduler, self._outer
        self.parked_since = scheduler.clock()
        entry = None if timeout is None else scheduler.timers.add(self.parked_since + timeout, self)
        outer_is_woken = False
        try:
            while not self._was_switched_to:
                self.switch_away()
                outer_is_woken = outer_is_woken or not self._was_switched_to
        finally:
            if entry is not None:
                scheduler.timers.discard(entry)
            if outer_is_woken:
                outer.wake_queue.append(outer)
            _target = self._take_target()  # dropped on return, as in Scheduler._park
        self._was_switched_to = False
        return self._take_value()

    def switch_away(self) -> None:
        """Switch away with the method of main code if the outer waiter is main code, else with the scheduler's."""
        switch_main = getattr(self._outer, "_let_others_run", None)
        if switch_main is not None:
            switch_main()
        else:
            self.scheduler._let_others_run(self)


def inner_waiter(outer: Waiter) -> Waiter:
    """Return a waiter for code that runs on the greenlet of ``outer``, and parks while ``outer`` counts as parked."""
    return InnerThread() if isinstance(outer, OSThread) else InnerWaiter(outer)


def is_woken(waiter: Any) -> bool:
    """Return whether a waiter that does not count as parked is still in a wait: it was woken, but has not resumed.

    From: the waiter's own greenlet, if ``wait_target`` is set. A wait that failed before its switch may leave its
    target behind. This function then sets the target to None, so that its search of the runnable entries is rare.
    """
    if waiter._value is not None or waiter._error is not None or waiter in waiter.scheduler.woken():
        return True
    waiter.wait_target = None
    return False
