"""Event: a flag to wait for.

While unset, it has a queue of waiters; ``set`` replaces that queue by an empty one and sets the flag in one atomic line
(``lock.py``), then wakes the waiters of the former queue. So a waiter is in the queue of the current ``set`` or of the
next one, never in neither, and ``set`` needs no lock: signal handlers and finalizers may call it at any bytecode. A
waiter in another OS thread that waits again while ``set`` still wakes the others joins the new queue, and waits for the
next ``set``.

Rejected: waking out of the one queue until it is empty. With ``clear`` and ``wait`` in a loop, one ``set`` might never
end.
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
    """A flag to wait for. Source: ``threading.Event``; signal handlers and finalizers may also call ``set``.

    >>> event = Event()
    >>> event.wait(timeout=0), event.set(), event.wait()
    (False, None, True)
    """

    __slots__ = ("__dict__", "__weakref__", "_flag", "_spare_queue_", "_waiters_")

    def __init__(self) -> None:
        self._flag = False
        self._waiters_ = WaitQueue(self, "event.wait")
        # The queue emptied by the last set(), reused by the next one: a new WaitQueue costs as much as a switch.
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
        """Return whether the flag is set. Source: also deprecated in threading."""
        warnings.warn("isSet() is deprecated, use is_set() instead", DeprecationWarning, stacklevel=2)
        return self._flag

    @compiled  # C: no other set() under way
    def set(self) -> None:
        """Set the flag and wake all waiters. Parks: never. From: any thread, a signal handler, a finalizer."""
        # Look and flag in one line: a waiter that queued up in between would sleep beside a set flag.
        if not self._waiters_: self._flag = True; return  # atomic  # fmt: skip
        fresh, self._spare_queue_ = self._spare_queue_, None  # atomic
        if fresh is None:
            fresh = WaitQueue(self, "event.wait")
        # From this line on wait() returns at once, or queues up for the next set() if clear() comes first.
        self._flag, waiting, self._waiters_ = True, self._waiters_, fresh  # atomic
        while waiting:
            try:
                waiter = waiting.popleft().pop()
            except IndexError:  # the waiter has left, or another OS thread took the last one
                continue
            waiter.deliver_wake(True)
        self._spare_queue_ = waiting

    def clear(self) -> None:
        """Unset the flag: ``wait`` parks from now on."""
        self._flag = False

    @compiled
    @calls_out
    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the flag. Parks: while it is unset (``event.wait``). Returns: False after ``timeout`` seconds."""
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
        # The append counts only in the queue that the next set() will take, and while the flag is unset.
        if queue is self._waiters_ and not self._flag: queue.append(ticket)  # atomic  # fmt: skip
        else:
            me.wake_parked(True)  # set() came between the check of the flag and here, and does not know this waiter
        return me.park_within(timeout) is not TIMED_OUT

    def _state_(self) -> bool:
        return self._flag

    def _serve_(self, n: int) -> None:
        # Whether the flag is set or not.
        while n > 0 and self._waiters_.wake_first() is not None:
            n -= 1
