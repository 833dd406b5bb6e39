"""Semaphore and BoundedSemaphore: permits, handed over in FIFO order.

``_value`` counts the free permits. ``release`` wakes the first waiters with a permit each, and adds the rest to
``_value``: a caller that comes later cannot overtake. As in ``lock.py``, which explains the atomic lines, a caller that
finds no permit queues up and then checks a second time (``_hand_out_permits_``), so no inner lock is needed.
"""

from __future__ import annotations

from .._kernel.faces.arguments import check_wait_timeout
from .._kernel.faces.foreign_names import refuse_async_with
from .._kernel.fast.compiled import compiled
from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import found_nothing, overlong
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
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
        """Acquire a permit. Parks: while none is free (``semaphore.acquire``). Returns: whether one was acquired."""
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

    @compiled  # C: one permit
    def release(self, n: int = 1) -> None:
        """Give ``n`` permits back, to the first waiters. From: any thread. Raises: ValueError if n < 1."""
        if n < 1:
            raise ValueError("n must be one or more")
        # A waiter that queued up between the check and the addition would sleep beside a free permit.
        if not self._waiters_: self._value += n; return  # atomic  # fmt: skip
        while n and self._waiters_ and self._waiters_.wake_first() is not None:
            n -= 1
        self._value += n  # atomic
        # A waiter may have queued up after the loop, when no permit was free yet.
        self._hand_out_permits_()

    def _hand_out_permits_(self) -> None:
        """Hand free permits to the first waiters."""
        while self._waiters_:
            if self._value > 0: self._value -= 1  # atomic  # fmt: skip
            else:
                return
            # Taken before the wake, so that no caller takes the same permit; put back if all waiters have left.
            if self._waiters_.wake_first() is None:
                self._value += 1  # atomic

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

    def _at_fork_reinit(self, value: int = 1) -> None:
        super()._at_fork_reinit()
        self._value = value


class BoundedSemaphore(Semaphore):
    """A Semaphore that rejects more permits than it began with. Source: ``threading.BoundedSemaphore``."""

    __slots__ = ("_initial_value",)

    def __init__(self, value: int = 1) -> None:
        super().__init__(value)
        self._initial_value = self._value

    @compiled  # C: one permit, within the bound
    def release(self, n: int = 1) -> None:
        """Give ``n`` permits back. Raises: ValueError if that exceeds the initial number."""
        # Check and addition in one line: two threads cannot both find room for the last permit.
        room = self._initial_value - n
        if n > 0 and not self._waiters_ and self._value <= room: self._value += n; return  # atomic  # fmt: skip
        if self._value > room:
            raise ValueError("Semaphore released too many times")
        super().release(n)
