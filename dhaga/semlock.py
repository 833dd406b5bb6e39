"""The semaphore of ``multiprocessing``, below its locks, conditions and queues: a dhaga that has to wait for it parks.

It is a semaphore of the operating system, of which no file descriptor tells. Who waits is woken by a release in its own
process; for one in another process it asks from time to time. A process without dhagas blocks, as ever.

Rejected: an OS thread a wait. It would take the semaphore for a caller who has been cancelled meanwhile.
"""

from __future__ import annotations

import _multiprocessing  # type: ignore[import-not-found]
import sys
from types import TracebackType
from typing import Any

from greenlet import getcurrent

from .kernel import exit
from .kernel.waiter import Waiter
from .kernel.waiting import WaitQueue
from .parkers import parker

__all__ = ["SemLock"]

RECURSIVE = 0
"""The kind of a semaphore that is an RLock; 1 is any other."""

PAUSES = 0.0005, 0.01
"""First and longest pause between two questions, in seconds: of the last 100 a second take 0.3 % of a CPU."""

standard: Any = _multiprocessing.SemLock


class SemLock(standard):  # type: ignore[misc]
    """A semaphore that processes share. Source: ``_multiprocessing.SemLock``; an RLock's holder is a dhaga."""

    holder: Any = None
    queue: WaitQueue | None = None

    @property
    def waiters(self) -> WaitQueue:
        """Those of this process; objects are also made without ``__init__``."""
        if self.queue is None:
            self.queue = WaitQueue(self, "semaphore of processes")
        return self.queue

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Take one. Parks: ``semaphore of processes``. Returns: False if there is none, after ``timeout`` seconds."""
        if self.take():
            return True
        me = parker() if block else None
        return block and (self.take_late(me, timeout) if me is not None else self.take_blocking(timeout))

    def take(self) -> bool:
        """Take one if there is one; the standard RLock would take any dhaga of the OS thread for its holder."""
        me = getcurrent() if self.kind == RECURSIVE else None
        if self.holder not in (None, me) or not super().acquire(False):
            return False
        self.holder = me
        return True

    def take_blocking(self, timeout: float | None) -> bool:
        taken: bool = super().acquire(True, timeout)
        if taken and self.kind == RECURSIVE:
            self.holder = getcurrent()
        return taken

    def take_late(self, me: Waiter, timeout: float | None) -> bool:
        clock, (pause, longest) = me.scheduler.clock, PAUSES
        deadline = None if timeout is None else clock() + timeout
        while not self.take():
            left = pause if deadline is None else min(pause, deadline - clock())
            if left <= 0:
                return False
            try:
                self.waiters.wait(False, bool, left)
            except TimeoutError:
                pause = min(2 * pause, longest)
        return True

    def release(self) -> None:
        """Give one back. Raises: AssertionError for an RLock that is another's, ValueError above the greatest value."""
        if self.kind == RECURSIVE and self.holder is not getcurrent():
            raise AssertionError("attempt to release recursive lock not owned by thread")
        if self._count() == 1:
            self.holder = None
        super().release()
        if self.queue:
            self.queue.wake_first()

    def _is_mine(self) -> bool:
        return self.holder is getcurrent() if self.kind == RECURSIVE else super()._is_mine()

    def _after_fork(self) -> None:
        super()._after_fork()
        self.holder = self.queue = None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.release()


def end_processes() -> None:
    """Do at exit what ``multiprocessing`` does: wait for children, and have queues written out by their threads.

    It has registered the same with ``atexit``, which calls it when daemons have ended that are dhagas, and for nothing.
    """
    module = sys.modules.get("multiprocessing.util")
    if module is not None:
        module._exit_function()


exit.last_calls.append(end_processes)
