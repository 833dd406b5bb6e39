"""``os.open`` for dhagas: opening a FIFO whose other end is closed parks the caller.

The system call runs in an OS thread. Rejected: opening with ``O_NONBLOCK``. An open for reading would then return
before a writer has opened the FIFO, and C code that reads would see the end of the file.
"""

from __future__ import annotations

import os
import stat
from typing import Any

from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.platform.system import system
from .._kernel.wait.current import parking_waiter
from .._workers.offload import OffloadPool
from .pending_open import offload_open

__all__ = ["kind_of", "open"]

# The standard library's functions, taken before a patch can replace them.
standard_open, standard_stat = os.open, os.stat

OPENS = 256
"""Maximum number of concurrent calls that wait for the other end of a FIFO. Each wait occupies an OS thread."""

fifos: OffloadPool = OffloadPool("os.open", OPENS)
fifos.awaited_at_exit = False

NEVER_WAITS = system.O_NONBLOCK | getattr(os, "O_PATH", 0)


def kind_of(path: Any, dir_fd: int | None = None) -> int:
    """Return a file's ``st_mode``, which includes the file type. Returns: 0 if the status cannot be read."""
    try:
        return standard_stat(path, dir_fd=dir_fd).st_mode
    except (OSError, TypeError, ValueError):  # the open itself raises a better error
        return 0


@builtin_function
def open(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Open a file and return its fd. Source: ``os.open``.

    Parks: while the other end of a FIFO is closed (``offload os.open``). A cancel ends only the caller's wait; the fd
    is closed as soon as the open has succeeded.
    """
    waits = not flags & NEVER_WAITS and flags & system.O_ACCMODE != os.O_RDWR
    if not waits or not stat.S_ISFIFO(kind_of(path, dir_fd)) or parking_waiter() is None:
        return standard_open(path, flags, mode, dir_fd=dir_fd)
    return offload_open(fifos, lambda: standard_open(path, flags, dir_fd=dir_fd), os.close)
