"""The conditions of a Queue, ``not_empty``, ``not_full`` and ``all_tasks_done``, for programs that wait on them
directly.

A watcher is a waiter of ``not_empty`` or ``not_full``. Watchers wait among the queue's getters or putters, in the order
of arrival. In its turn, a watcher is only woken: it gets no item and stores none. The watcher then acquires the mutex
and checks the queue itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.wait.current import this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter, claim
from .condition import Condition
from .mutex import Mutex

__all__ = ["AllTasksDone", "QueueCondition"]


class QueueCondition(Condition):
    """A Condition over the mutex of a Queue. Source: the Conditions ``not_empty`` and ``not_full`` of ``queue.Queue``.

    ``waiters``: the queue's getters or putters. ``watchers``: the waiters of this condition, which are among the
    getters or putters. ``serve``: a function that serves the first waiters while there are items or room. The code
    between acquire and release must not park.
    """

    def __init__(self, mutex: Mutex, waiters: WaitQueue, watchers: set[Waiter], serve: Callable[[], None]) -> None:
        super().__init__(mutex)
        self._waiters: WaitQueue = waiters
        self._watchers = watchers
        self._serve = serve

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._waiters.reason}, {self._waiters.parked()} parked>"

    def _is_owned(self) -> bool:
        return bool(self._lock.locked())

    def wait(self, timeout: float | None = None) -> bool:
        """Release the mutex, wait for a notify or a change of the queue, and acquire the mutex again.

        Parks: until the wake (``queue.get watch`` or ``queue.put watch``). Returns: False after ``timeout`` seconds.
        Raises: RuntimeError if the mutex is free; Cancelled, with the mutex held again.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        if timeout is not None:
            check_wait_timeout(timeout)
            if timeout <= 0:
                self._lock.release()
                self._lock.acquire()
                return False
        me = this_waiter()
        me.prepare_park(f"{self._waiters.reason} watch", self._waiters)
        self._watchers.add(me)
        self._waiters.append(me.parked)
        self._lock.release()
        try:
            return me.park_within(timeout) is not TIMED_OUT
        finally:
            self._lock.acquire()
            self._watchers.discard(me)

    def notify(self, n: int = 1) -> None:
        """Serve all getters or putters that can be served, then wake watchers until at least ``n`` waiters were woken.

        Raises: RuntimeError if the mutex is free.
        """
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        before = self._waiters.parked()
        self._serve()
        n -= before - self._waiters.parked()
        for ticket in [*self._waiters]:
            if n <= 0:
                return
            watcher = next(iter(ticket), None)
            if watcher in self._watchers and claim(ticket):
                self._waiters._remove(watcher)
                watcher.deliver_wake(True)
                n -= 1

    def notify_all(self) -> None:
        """Serve all getters or putters that can be served, and wake all watchers."""
        self.notify(len(self._waiters))


class AllTasksDone:
    """The condition ``all_tasks_done`` of a queue.

    Source: the Condition ``all_tasks_done`` of ``queue.Queue``, but ``acquire`` does not exclude other callers.
    """

    __slots__ = ("_joiners", "_queue")

    def __init__(self, queue: Any, joiners: WaitQueue) -> None:
        self._queue = queue
        self._joiners = joiners

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all tasks are done. Parks: ``queue.join``. Returns: False after ``timeout`` seconds."""
        queue = self._queue
        queue.mutex.acquire()
        try:
            if not queue.unfinished_tasks:
                return True
            if timeout is not None:
                check_wait_timeout(timeout)
                if timeout <= 0:
                    return False
            me = this_waiter()
            me.prepare_park("queue.join", self._joiners)
            self._joiners.append(me.parked)
        finally:
            queue.mutex._free = True
        return me.park_within(timeout) is not TIMED_OUT

    def notify_all(self) -> None:
        """Wake all waiters. Programs call this method after they have set ``unfinished_tasks`` to 0 themselves."""
        self._joiners.wake_all()

    notify: Callable[..., None] = notify_all
    notifyAll: Callable[..., None] = notify_all
    wait_for: Callable[..., Any] = Condition.wait_for

    def locked(self) -> bool:
        """Return whether the queue's mutex is held."""
        return bool(self._queue.mutex.locked())

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...
