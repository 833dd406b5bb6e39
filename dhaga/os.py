"""The standard ``os`` with what parks: waiting for children, and reading and writing by file descriptor.

Whatever is not defined here is the standard module's own; of that ``popen`` and ``spawn*`` park in a patched program
alone (elsewhere there is ``dhaga.subprocess``), and to open a FIFO blocks until its other end is opened.
"""

from __future__ import annotations

import os as standard
from typing import Any

from .children import wait, wait3, wait4, waitid, waitpid
from .descriptors import close, read, readv, sendfile, write, writev
from .io import open as open_file
from .offload import OffloadPool

__all__ = ["close", "fdopen", "read", "readv", "sendfile", "system", "write", "writev"]
__all__ += ["wait", "wait3", "wait4", "waitid", "waitpid"]


SHELLS = 256
"""Shells of ``system`` at once: each holds an OS thread, in which SIGCHLD is blocked meanwhile."""

standard_system = standard.system
shells = OffloadPool("os.system", SHELLS)


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


def system(command: Any) -> int:
    """Run a command in a shell and return its status. Parks: ``offload os.system``. Source: ``os.system``.

    A cancel lets the caller go; the command runs on.
    """
    return shells.offload(standard_system, command)


def fdopen(
    fd: int, mode: str = "r", buffering: int = -1, encoding: str | None = None, *args: Any, **options: Any
) -> Any:
    """Open a file over an fd. Parks: never; see ``dhaga.io.open``. Source: ``os.fdopen``."""
    if not isinstance(fd, int):
        raise TypeError(f"invalid fd type ({type(fd)}, expected integer)")
    return open_file(fd, mode, buffering, encoding, *args, **options)
