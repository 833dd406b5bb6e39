"""SemLock of ``multiprocessing``, the base of its locks, conditions and queues: a dhaga that has to wait for it parks.

It is a semaphore of the operating system. No file descriptor reports its release, so a waiter polls: a release in the
same process wakes it at once, a release in another process is seen at the next poll. Only the first waiter of a process
polls; the others queue up behind it. A process without dhagas blocks in the system call, as with the standard.
``_holder`` is needed only for an RLock: the standard RLock knows only the OS thread, and would admit each dhaga of that
thread.

Rejected: an OS thread for each wait. It might acquire the semaphore for a caller that was cancelled meanwhile.
"""

from __future__ import annotations

import _multiprocessing  # type: ignore[import-not-found]
from collections.abc import Callable
from types import TracebackType
from typing import Any

from greenlet import getcurrent

from .._kernel.backoff import backoff
from .._kernel.faces.arguments import check_seconds
from .._kernel.wait.current import parking_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter
from .lock import Lock

__all__ = ["SemLock"]

RECURSIVE = 0
"""The kind of a semaphore that is an RLock; 1 is any other."""

REASON = "semaphore of processes"

PAUSES = 0.0005, 0.01
"""First and longest pause between two polls, in seconds; the pause doubles. 100 polls a second take 0.3 % of a CPU."""

standard: Any = _multiprocessing.SemLock


class SemLock(standard):  # type: ignore[misc]
    """A semaphore shared by processes. Source: ``_multiprocessing.SemLock``; the holder of an RLock is a dhaga."""

    # On the class, since unpickling in another process does not call __init__().
    _holder: Any = None
    # Made by the first wait. The queue holds the waiter that polls; the others wait for their turn.
    _waits: tuple[Lock, WaitQueue] | None = None

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Acquire. Parks: while none is free (``semaphore of processes``). Returns: False after ``timeout`` seconds."""
        check_seconds(timeout)
        if not (block and self._is_awaited()) and self._try_acquire():
            return True
        me = parking_waiter() if block else None
        return block and (self._acquire_parking(me, timeout) if me is not None else self._acquire_blocking(timeout))

    def _is_awaited(self) -> bool:
        """Return whether earlier callers of this process wait; the holder of an RLock need not queue up behind them."""
        return self._waits is not None and self._waits[0].locked() and self._holder is not getcurrent()

    def _try_acquire(self) -> bool:
        """Acquire without waiting. Returns: whether it was acquired."""
        # To the standard RLock every dhaga of the holder's OS thread is the holder: so we check.
        me = getcurrent() if self.kind == RECURSIVE else None
        if self._holder not in (None, me) or not super().acquire(False):
            return False
        self._holder = me
        return True

    def _acquire_blocking(self, timeout: float | None) -> bool:
        """Acquire in a plain OS thread, which the system call blocks."""
        taken: bool = super().acquire(True, timeout)
        if taken and self.kind == RECURSIVE:
            self._holder = getcurrent()
        return taken

    def _acquire_parking(self, me: Waiter, timeout: float | None) -> bool:
        """Acquire in a dhaga: wait for the turn, then poll."""
        clock = me.scheduler.clock
        deadline = None if timeout is None else clock() + timeout
        turn, queue = self._turn_and_queue()
        if not turn.acquire(timeout=-1 if timeout is None else max(0, timeout)):
            return False
        try:
            return self._poll(queue, clock, deadline)
        finally:
            turn.release()

    def _turn_and_queue(self) -> tuple[Lock, WaitQueue]:
        if self._waits is None:
            turn = Lock()
            turn._waiters.reason = REASON
            # Atomic: first waiters in several OS threads get the same turn.
            return self.__dict__.setdefault("_waits", (turn, WaitQueue(self, REASON)))  # type: ignore[no-any-return]
        return self._waits

    def _poll(self, queue: WaitQueue, clock: Callable[[], float], deadline: float | None) -> bool:
        """Try repeatedly; park in between until the pause is over, or this process releases."""
        pauses = backoff(*PAUSES)
        pause = next(pauses)
        while not self._try_acquire():
            left = pause if deadline is None else min(pause, deadline - clock())
            if left <= 0:
                return False
            # A wake hands nothing over, because another process may acquire first: the waiter polls again.
            if queue.wait(False, bool, left) is TIMED_OUT:
                pause = next(pauses)
        return True

    def release(self) -> None:
        """Release. Raises: AssertionError if the caller does not hold the RLock, ValueError above the maximum."""
        if self.kind == RECURSIVE and self._holder is not getcurrent():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        # Cleared before the release: another dhaga may acquire at once.
        if self._count() == 1:
            self._holder = None
        super().release()
        if self._waits is not None:
            self._waits[1].wake_first()

    def _is_mine(self) -> bool:
        return self._holder is getcurrent() if self.kind == RECURSIVE else super()._is_mine()

    def _after_fork(self) -> None:
        super()._after_fork()
        # The child has no dhaga of the parent: neither the holder nor the waiters are here.
        self._holder = None
        self.__dict__.pop("_waits", None)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.release()
