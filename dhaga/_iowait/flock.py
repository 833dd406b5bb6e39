"""``flock``: a file lock whose waiters park. The patch replaces ``fcntl.flock`` with this function.

The standard function waits in C. Meanwhile no dhaga of the OS thread can run, not even the dhaga that would unlock the
file. No file descriptor reports the release of a file lock, so a waiter polls. An unlock in the same process wakes the
waiter at once. At its next poll, the waiter notices other releases: by another process, or by a close of the file. Of
all waiters for the same lock in a process, only the first one polls.

There is no such replacement for ``lockf``. Its locks belong to the process, so no dhaga waits for another dhaga. The
system detects a deadlock of two processes only if both wait in C. Rejected: an OS thread for each wait. That thread
might lock the file after its caller was cancelled.
"""

from __future__ import annotations

import fcntl as standard
import os
from typing import Any
from weakref import WeakValueDictionary

from .._kernel import originals
from .._kernel.backoff import backoff
from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.run.scheduler import sleep
from .._kernel.wait.current import parking_waiter
from .._kernel.wait.wait_queue import WaitQueue
from .._kernel.wait.waiter import TIMED_OUT
from .._sync.lock import Lock

__all__ = ["flock"]

REASON = "flock"

PAUSES = 0.0005, 0.02
"""First and longest pause between two polls, in seconds. At the longest pause, a waiter polls 50 times per second. A
poll takes 20 µs, so these polls take 0.1 % of a CPU.
"""

standard_flock = standard.flock


class Line:
    """The queue of dhagas that wait for the same kind of lock on a file. The holder of ``turn`` polls."""

    def __init__(self) -> None:
        self.turn: Lock = Lock()
        self.turn._waiters.reason = REASON
        self.polls: WaitQueue = WaitQueue(self, REASON)

    def wait(self, fd: Any, operation: int) -> None:
        """Wait for the turn, then poll. Parks: ``flock``."""
        with self.turn:
            pauses = backoff(*PAUSES)
            pause = next(pauses)
            while not locks_at_once(fd, operation):
                # A woken waiter polls again, because another process may have locked the file first.
                if self.polls.wait(False, bool, pause) is TIMED_OUT:
                    pause = next(pauses)


lines: WeakValueDictionary[tuple[int, int, int], Line] = WeakValueDictionary()
"""The queues, by the file's device, its inode, and the operation of ``flock``."""


@builtin_function
def flock(fd: Any, operation: int, /) -> None:
    """Lock or unlock a file. Source: ``fcntl.flock``.

    Parks: while another open file has the lock (``flock``). If earlier callers wait for the lock, the caller first
    yields to them. A plain OS thread blocks.
    """
    if operation & (standard.LOCK_NB | standard.LOCK_UN) or parking_waiter() is None:
        standard_flock(fd, operation)
        if operation & standard.LOCK_UN:
            wake_lines(fd)
        return
    if wake_lines(fd):
        sleep(0)  # earlier waiters try first
    if not locks_at_once(fd, operation):
        line = lines.setdefault((*file_of(fd), operation), Line())
        line.wait(fd, operation)


def locks_at_once(fd: Any, operation: int) -> bool:
    """Lock the file without waiting. Returns: False if another open file has the lock."""
    try:
        standard_flock(fd, operation | standard.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wake_lines(fd: Any) -> bool:
    """Wake the first waiters for a file so that they poll again. Returns: whether the file has waiters."""
    if not lines:
        return False
    file = file_of(fd)
    waiting = [line for kind in (standard.LOCK_EX, standard.LOCK_SH) if (line := lines.get((*file, kind))) is not None]
    for line in waiting:
        line.polls.wake_first()
    return bool(waiting)


def file_of(fd: Any) -> tuple[int, int]:
    """Return the device and the inode of an open file."""
    status = os.fstat(fd if isinstance(fd, int) else fd.fileno())
    return status.st_dev, status.st_ino


originals.after_fork_in_child(lines.clear)
