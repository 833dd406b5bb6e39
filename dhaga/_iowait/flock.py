"""``fcntl.flock`` that parks: the patch puts it in place of the standard function.

The standard one waits in C: no dhaga of the OS thread can run meanwhile, not even the one that is to unlock the file,
whose turn may have ended. No file descriptor reports the release of a file lock, so a waiter polls: an unlock in the
same process wakes it at once, a release in another process, or by closing the file, is seen at the next poll. Of all
waiters for the same lock in a process the first one polls.

Not here: ``lockf``. Its locks belong to the process, so no dhaga waits for another; and the system refuses only a wait
in C if two processes wait for each other.
Rejected: an OS thread for each wait. It might lock the file for a caller that was cancelled meanwhile.
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
"""First and longest pause between two polls, in seconds. At 50 polls a second each takes 20 µs."""

standard_flock = standard.flock


class Line:
    """The dhagas that wait for the same kind of lock, shared or exclusive, of a file. The holder of ``turn`` polls."""

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
                # A wake hands nothing over, because another process may lock first: the waiter polls again.
                if self.polls.wait(False, bool, pause) is TIMED_OUT:
                    pause = next(pauses)


lines: WeakValueDictionary[tuple[int, int, int], Line] = WeakValueDictionary()
"""The queues for files, by the file's device and inode and the kind of lock."""


@builtin_function
def flock(fd: Any, operation: int, /) -> None:
    """Lock or unlock a file. Source: ``fcntl.flock``.

    Parks: while another open file has the lock (``flock``), or others already wait for it. A plain OS thread blocks.
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
    """Lock without waiting. Returns: False if another open file has the lock."""
    try:
        standard_flock(fd, operation | standard.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wake_lines(fd: Any) -> bool:
    """Wake the first waiters of a file, to poll again. Returns: whether there are any."""
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
