"""The attribute ``_cond`` of Event and Semaphore: a private condition that programs nevertheless use.

Programs notify the condition after they change the primitive (``with semaphore._cond: semaphore._value += 1;
semaphore._cond.notify()``), and subclasses wait for the condition. The condition's waiters are in the primitive's own
queue. So a wake of the primitive's waiters also reaches the condition's waiters, and a notify also wakes the
primitive's waiters.

The primitive changes its state without the condition's lock, but ``wait`` must not miss a change after the waiter's
check of the state. So ``wait`` returns at once if a permit was added, or the event was set, after the waiter got the
lock.
"""

from __future__ import annotations

from typing import Any

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.interpreter.guards import Guarded
from .._kernel.wait.current import this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .condition import Condition
from .lock import Lock

__all__ = ["ConditionInside", "InnerCondition"]

CHANGED = object()
"""The value of a wake that ends a wait at once, because the state has changed."""


class ConditionInside(Guarded):
    """Base class of Event and Semaphore, the primitives with an inner condition. Their waiters are in ``_waiters_``."""

    __slots__ = ()

    _waiters_: WaitQueue

    @property
    def _cond(self) -> InnerCondition:
        """The inner condition, created on first use. Source: an attribute of the standard Event and Semaphore."""
        made: InnerCondition | None = self.__dict__.get("_inner_condition")
        if made is None:
            made = self.__dict__.setdefault("_inner_condition", InnerCondition(self))
        return made

    def _serve_(self, n: int) -> None:
        """Serve waiters after a notify: an Event wakes at most ``n``, a Semaphore hands out all its free permits."""
        raise NotImplementedError

    def _state_(self) -> int:
        """Return the state as a number. If the number has grown, a waiter of the condition must check again."""
        raise NotImplementedError

    def _take_back_(self) -> None:
        """Put back a permit that was handed to a waiter of the condition: such a waiter checks the state itself."""

    def _at_fork_reinit(self) -> None:
        # The waiters exist only in the parent process.
        self._waiters_.clear()


class InnerCondition(Condition):
    """A Condition that shares the queue of waiters of a primitive."""

    def __init__(self, owner: ConditionInside) -> None:
        super().__init__(Lock())
        self._owner = owner
        self._state_checked = owner._state_()
        self.acquire = self._acquire

    def __enter__(self) -> Any:
        return self._acquire()

    def _acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, and record the state that the caller is about to check."""
        acquired: bool = self._lock.acquire(blocking, timeout)
        if acquired:
            self._state_checked = self._owner._state_()
        return acquired

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait for a wake in the primitive's queue, and acquire the lock again.

        Parks: until the wake. Returns: False after ``timeout`` seconds. Raises: RuntimeError if the lock is not held;
        Cancelled, with the lock held again.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        if timeout is not None:
            check_wait_timeout(timeout)
        if timeout is not None and timeout <= 0:
            self._acquire_restore(self._release_save())
            self._state_checked = self._owner._state_()
            return False
        me, waiters = this_waiter(), self._owner._waiters_
        me.prepare_park(waiters.reason, waiters)
        ticket = me.parked
        waiters.append(ticket)
        if self._owner._state_() > self._state_checked and me.undo_park():
            me.wake_from(ticket, CHANGED)
        saved = self._release_save()
        wake: Any = TIMED_OUT
        try:
            wake = me.park_within(timeout)
        finally:
            self._acquire_restore(saved)
            if wake is not TIMED_OUT and wake is not CHANGED:
                self._owner._take_back_()
            self._state_checked = self._owner._state_()
        return wake is not TIMED_OUT

    def notify(self, n: int = 1) -> None:
        """Wake at most ``n`` waiters of an Event, or all waiters for whom a Semaphore has permits.

        Raises: RuntimeError if the lock is not held.
        """
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        self._owner._serve_(n)

    def notify_all(self) -> None:
        """Wake all waiters of an Event, or all waiters for whom a Semaphore has permits."""
        self.notify(len(self._owner._waiters_))
