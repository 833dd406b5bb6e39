"""SemLock, on which the locks, conditions and queues of ``multiprocessing`` are built. A dhaga parks while it waits.

A SemLock is a semaphore of the operating system. No file descriptor reports its release, so a waiter polls. A release
in the same process wakes the waiter at once; the waiter sees a release in another process at the next poll. Only the
first waiter of a process polls, and the others queue up behind it. A caller that cannot park blocks in the system call,
as with the standard SemLock. ``_holder`` is needed only for an RLock: the standard RLock compares only OS threads, and
would admit every dhaga of the holder's thread.

Rejected: an OS thread for each wait. That thread might acquire the semaphore after its caller was cancelled.
"""

from __future__ import annotations

import _multiprocessing  # type: ignore[import-not-found]
from collections.abc import Callable
from types import TracebackType
from typing import Any

from greenlet import getcurrent

from .._kernel.backoff import backoff
from .._kernel.faces.arguments import check_seconds
from .._kernel.wait.current import on_event_loop, parking_waiter, this_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT, Waiter
from .lock import Lock, is_in_this_thread

__all__ = ["SemLock"]

RECURSIVE = 0
"""The value of ``kind`` for an RLock; all other semaphores have 1."""

REASON = "semaphore of processes"

PAUSES = 0.0005, 0.01
"""First and longest pause between two polls, in seconds. Each pause is twice as long as the previous pause. 100 polls
per second take 0.3 % of a CPU.
"""

standard: Any = _multiprocessing.SemLock


class SemLock(standard):  # type: ignore[misc]
    """A semaphore shared by processes. Source: ``_multiprocessing.SemLock``; the holder of an RLock is a dhaga."""

    # _holder and _waits are class attributes, since unpickling in another process does not call __init__().
    _holder: Any = None
    # Created by the first wait. The holder of the Lock polls, and parks in the WaitQueue between two polls. The other
    # waiters queue up for the Lock.
    _waits: tuple[Lock, WaitQueue] | None = None

    def _holders(self) -> list[object]:
        return [] if self._holder is None else [self._holder]

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Acquire the semaphore. Parks: until it is free (``semaphore of processes``). Returns: False after ``timeout``
        seconds.
        """
        check_seconds(timeout)
        if not (block and self._is_awaited()) and self._try_acquire():
            return True
        me = parking_waiter() if block else None
        return block and (self._acquire_parking(me, timeout) if me is not None else self._acquire_blocking(timeout))

    def _is_awaited(self) -> bool:
        """Return whether the caller must queue up behind waiters of this process. An RLock's holder never queues up."""
        return self._waits is not None and self._waits[0].locked() and self._holder is not getcurrent()

    def _try_acquire(self) -> bool:
        """Acquire the semaphore without waiting. Returns: whether it was acquired."""
        # Check the holder here: the standard RLock admits every dhaga of the holder's OS thread.
        me = getcurrent() if self.kind == RECURSIVE else None
        if self._holder not in (None, me) or not super().acquire(False):
            return False
        self._holder = me
        return True

    def _acquire_blocking(self, timeout: float | None) -> bool:
        """Acquire the semaphore in a system call that blocks the calling OS thread.

        Raises: ParkError on an event loop, if a dhaga of this OS thread holds the RLock: the standard RLock would
        mistake the caller for this holder.
        """
        if self._holder is not None and on_event_loop() and is_in_this_thread(self._holder):
            this_waiter()
        taken: bool = super().acquire(True, timeout)
        if taken and self.kind == RECURSIVE:
            self._holder = getcurrent()
        return taken

    def _acquire_parking(self, me: Waiter, timeout: float | None) -> bool:
        """Acquire the semaphore for a caller that can park: wait for the caller's turn, then poll."""
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
            # setdefault() is atomic, so simultaneous first waiters in several OS threads get the same turn.
            return self.__dict__.setdefault("_waits", (turn, WaitQueue(self, REASON)))  # type: ignore[no-any-return]
        return self._waits

    def _poll(self, queue: WaitQueue, clock: Callable[[], float], deadline: float | None) -> bool:
        """Try to acquire until the deadline. Park between tries; a release in this process ends the park."""
        pauses = backoff(*PAUSES)
        pause = next(pauses)
        while not self._try_acquire():
            left = pause if deadline is None else min(pause, deadline - clock())
            if left <= 0:
                return False
            # A woken waiter polls again, because another process may have acquired the semaphore first.
            if queue.wait(False, bool, left) is TIMED_OUT:
                pause = next(pauses)
        return True

    def release(self) -> None:
        """Release the semaphore. Raises: ValueError if released too often; AssertionError if an RLock is not held."""
        if self.kind == RECURSIVE and self._holder is not getcurrent():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        # Clear the holder before the release, because another dhaga may acquire at once.
        if self._count() == 1:
            self._holder = None
        super().release()
        if self._waits is not None:
            self._waits[1].wake_first()

    def _is_mine(self) -> bool:
        return self._holder is getcurrent() if self.kind == RECURSIVE else super()._is_mine()

    def _after_fork(self) -> None:
        super()._after_fork()
        # The parent's dhagas, including the holder and the waiters, do not exist in the child.
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
