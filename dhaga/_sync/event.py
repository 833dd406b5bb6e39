"""Event: a flag that dhagas and threads wait for.

An unset Event has a queue of waiters. In one atomic line (``lock.py``), ``set`` replaces the queue with an empty one
and sets the flag. Then ``set`` wakes the waiters of the former queue. So each waiter is either in the queue of the
current ``set`` or in the queue of the next ``set``. Since ``set`` needs no lock, signal handlers and finalizers may
call it at any bytecode. If a woken waiter in another OS thread calls ``clear`` and ``wait`` while ``set`` still wakes
the others, the waiter joins the new queue and waits for the next ``set``.

Rejected: a single queue. ``set`` would wake waiters until this queue is empty. If waiters called ``clear`` and ``wait``
in a loop, ``set`` might never return.
"""

from __future__ import annotations

import warnings

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.fast.compiled import compiled
from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.current import this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .inner_condition import ConditionInside


class Event(ConditionInside):
    """A flag that callers wait for. Source: ``threading.Event``; signal handlers and finalizers may also call ``set``.

    >>> event = Event()
    >>> event.wait(timeout=0), event.set(), event.wait()
    (False, None, True)
    """

    __slots__ = ("__dict__", "__weakref__", "_flag", "_spare_queue_", "_waiters_")

    def __init__(self) -> None:
        self._flag = False
        self._waiters_ = WaitQueue(self, "event.wait")
        # The queue that the last set() has emptied. The next set() reuses this queue: a new WaitQueue costs as much as
        # a switch.
        self._spare_queue_: WaitQueue | None = None

    def __repr__(self) -> str:
        return f"<Event {'set' if self._flag else 'unset'}, {self._waiters_.parked()} parked>"

    @calls_out
    def is_set(self) -> bool:
        """Return whether the flag is set."""
        if overlong and not self._flag:
            found_nothing()
        return self._flag

    def isSet(self) -> bool:
        """Return whether the flag is set. Source: ``threading``, which also deprecates this name."""
        warnings.warn("isSet() is deprecated, use is_set() instead", DeprecationWarning, stacklevel=2)
        return self._flag

    @compiled  # in C only if no other set() is running
    def set(self) -> None:
        """Set the flag and wake all waiters. Parks: never. From: any thread, a signal handler, a finalizer."""
        # The check and the assignment are one line: a waiter that queued up in between would miss the flag.
        if not self._waiters_: self._flag = True; return  # atomic  # fmt: skip
        fresh, self._spare_queue_ = self._spare_queue_, None  # atomic
        if fresh is None:
            fresh = WaitQueue(self, "event.wait")
        # After this line, wait() returns at once. After a later clear(), wait() queues up for the next set().
        self._flag, waiting, self._waiters_ = True, self._waiters_, fresh  # atomic
        while waiting:
            try:
                waiter = waiting.popleft().pop()
            except IndexError:  # the waiter has left, or another OS thread took the last ticket
                continue
            waiter.deliver_wake(True)
        self._spare_queue_ = waiting

    def clear(self) -> None:
        """Clear the flag; later calls of ``wait`` park."""
        self._flag = False

    @compiled
    @calls_out
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag. Parks: until it is set (``event.wait``). Returns: False after ``timeout`` seconds."""
        if self._flag:
            return True
        if timeout is not None:
            check_wait_timeout(timeout)
            if timeout <= 0:
                if overlong:
                    found_nothing()
                return self._flag
        me, queue = this_waiter(), self._waiters_
        me.prepare_park(queue.reason, queue)
        ticket = me.parked
        # The ticket must go into the queue that the next set() will wake, and only while the flag is unset.
        if queue is self._waiters_ and not self._flag: queue.append(ticket)  # atomic  # fmt: skip
        else:
            me.wake_parked(True)  # set() ran after the check of the flag, without seeing this waiter
        return me.park_within(timeout) is not TIMED_OUT

    def _state_(self) -> bool:
        return self._flag

    def _serve_(self, n: int) -> None:
        # A notify wakes waiters whether or not the flag is set.
        while n > 0 and self._waiters_.wake_first() is not None:
            n -= 1
