"""``_cond`` of an Event and of a Semaphore: the condition inside, which programs use although it is private.

They notify it after a change by hand (``with semaphore._cond: semaphore._value += 1; semaphore._cond.notify()``), and
subclasses wait for it. Its waiters are in the primitive's own queue: so what wakes a waiter of the primitive wakes
them, and a notify wakes the waiters of the primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._kernel.arguments import check_wait_timeout
from .._kernel.wait.current import this_waiter
from .._kernel.wait.waiter import TIMED_OUT
from .condition import Condition
from .lock import Lock

__all__ = ["InnerCondition"]


class InnerCondition(Condition):
    """A Condition whose waiters are those of a primitive.

    ``serve``: serves up to ``n`` waiters; ``give_back``: takes what a waiter of this condition was handed, as such a
    waiter looks for itself.
    """

    def __init__(self, owner: Any, serve: Callable[[int], object], give_back: Callable[[], object]) -> None:
        super().__init__(Lock())
        self._owner = owner
        self._serve = serve
        self._give_back_ = give_back

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait until a waiter of the primitive would be woken, and acquire the lock again.

        Parks: until then. Returns: False after ``timeout`` seconds. Raises: RuntimeError if the lock is not held;
        Cancelled, with the lock held again.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        if timeout is not None:
            check_wait_timeout(timeout)
        if timeout is not None and timeout <= 0:
            self._acquire_restore(self._release_save())
            return False
        me, waiters = this_waiter(), self._owner._waiters_
        me.prepare_park(waiters.reason, waiters)
        waiters.append(me.parked)
        saved = self._release_save()
        woken = False
        try:
            woken = me.park_within(timeout) is not TIMED_OUT
        finally:
            self._acquire_restore(saved)
            if woken:
                self._give_back_()
        return woken

    def notify(self, n: int = 1) -> None:
        """Serve up to ``n`` waiters of the primitive. Raises: RuntimeError if the lock is not held."""
        if not self._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        self._serve(n)

    def notify_all(self) -> None:
        """Serve all waiters of the primitive."""
        self.notify(len(self._owner._waiters_))
