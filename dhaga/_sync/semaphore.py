"""Semaphore and BoundedSemaphore: counters of permits, which waiters get in FIFO order.

``_value`` is the number of free permits. ``release`` wakes the first waiters with one permit each, and adds only the
remaining permits to ``_value``, so later callers cannot overtake. A caller that finds no permit queues up and then
checks again (``_hand_out_permits_``), so no inner lock is needed. ``lock.py`` explains the second check and the atomic
lines.
"""

from __future__ import annotations

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.fast.compiled import compiled
from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter
from .inner_condition import ConditionInside


@refuse_async_with("async with asyncio.Semaphore")
class Semaphore(ConditionInside):
    """A number of permits; a released permit goes to the first waiter. Source: ``threading.Semaphore``.

    >>> permits = Semaphore(2)
    >>> with permits, permits: print(permits, permits.acquire(blocking=False))
    <Semaphore 0 free, 0 parked> False
    """

    __slots__ = ("__dict__", "__weakref__", "_value", "_waiters_")

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = int(value)
        self._waiters_ = WaitQueue(self, "semaphore.acquire")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._value} free, {self._waiters_.parked()} parked>"

    @compiled
    @calls_out
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a permit. Parks: while none is free (``semaphore.acquire``). Returns: whether it was acquired."""
        if timeout is not None:
            if not blocking:
                raise ValueError("can't specify timeout for non-blocking acquire")
            check_wait_timeout(timeout)
        if self._value > 0: self._value -= 1; return True  # atomic  # fmt: skip
        if not blocking or (timeout is not None and timeout <= 0):
            if overlong:
                found_nothing()
            return False
        return self._waiters_.wait(True, self._hand_out_permits_, timeout) is not TIMED_OUT

    @compiled  # in C only for one permit
    def release(self, n: int = 1) -> None:
        """Release ``n`` permits, which the first waiters get. From: any thread. Raises: ValueError if n < 1."""
        if n < 1:
            raise ValueError("n must be one or more")
        # Atomic, because a waiter that queued up between the check and the addition would not be woken.
        if not self._waiters_: self._value += n; return  # atomic  # fmt: skip
        while n and self._waiters_ and self._waiters_.wake_first() is not None:
            n -= 1
        self._value += n  # atomic
        # A waiter may have queued up between the loop and the addition, when no permit was free.
        self._hand_out_permits_()

    def _hand_out_permits_(self) -> None:
        """Hand free permits to the first waiters."""
        # Serve only the waiters that are queued now: later waiters check for themselves. If the loop also served later
        # waiters, it might never end: a waiter of the inner condition gives its permit back, and may queue up again at
        # once.
        waiting = len(self._waiters_)
        while waiting and self._waiters_:
            if self._value > 0: self._value -= 1  # atomic  # fmt: skip
            else:
                return
            # Take the permit before the wake, so that no other caller gets the permit. Put it back if all waiters have
            # left.
            if self._waiters_.wake_first() is None:
                self._value += 1  # atomic
            else:
                waiting -= 1

    @compiled
    def __enter__(self) -> bool:
        if self._value > 0: self._value -= 1; return True  # atomic  # fmt: skip
        return self.acquire()

    @compiled
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.release()

    def _serve_(self, n: int) -> None:
        self._hand_out_permits_()

    def _state_(self) -> int:
        return self._value

    def _take_back_(self) -> None:
        self._value += 1  # atomic

    def _take_back_from_(self, waiter: Waiter) -> None:
        """In a forked child, put back the permit of a waiter that never runs in the child."""
        if waiter._value is True:
            self._take_back_()

    def _at_fork_reinit(self, value: int = 1) -> None:
        super()._at_fork_reinit()
        self._value = value


class BoundedSemaphore(Semaphore):
    """A Semaphore whose number of permits cannot exceed the initial number. Source: ``threading.BoundedSemaphore``."""

    __slots__ = ("_initial_value",)

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._initial_value = self._value

    @compiled  # in C only for one permit within the bound
    def release(self, n: int = 1) -> None:
        """Release ``n`` permits. Raises: ValueError if there would be more permits than initially."""
        # Check and addition are in one line, so that two threads do not both find room for the last permit.
        room = self._initial_value - n
        if n > 0 and not self._waiters_ and self._value <= room: self._value += n; return  # atomic  # fmt: skip
        if self._value > room:
            raise ValueError("Semaphore released too many times")
        super().release(n)
