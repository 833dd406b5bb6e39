"""The standard ``os`` for dhagas: calls that wait for a child process, or read or write a file descriptor, park.

All other names are the standard module's own. Of these, ``popen`` and ``spawn*`` park only in a patched program; in
other programs, use ``dhaga.subprocess``.
"""

from __future__ import annotations

import os as standard
from collections.abc import Callable
from typing import Any

from ._iowait.child_wait import wait, wait3, wait4, waitid, waitpid
from ._iowait.fd_ops import close, closerange, dup2, read, readinto, readv, sendfile, write, writev
from ._iowait.kernel_fds import eventfd_read, eventfd_write, splice
from ._iowait.open_fd import open
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to, remove_names
from ._kernel.platform.system import system as platform
from ._kernel.process.preemption_watcher import resume_after_fork
from ._workers.offload import OffloadPool
from .io import open as open_file

__all__ = [
    "close",
    "closerange",
    "dup2",
    "eventfd_read",
    "eventfd_write",
    "fdopen",
    "fork",
    "forkpty",
    "open",
    "read",
    "readinto",
]
__all__ += ["readv", "sendfile", "splice", "system", "wait", "wait3", "wait4", "waitid", "waitpid", "write", "writev"]


# shutil.rmtree and os.fwalk look for open() in this set. If the set lacks open(), they use calls that may follow a link
# created meanwhile.
if standard.open in standard.supports_dir_fd:
    standard.supports_dir_fd.add(open)

SHELLS = 256
"""Maximum number of ``system`` shells at once. Each shell occupies an OS thread, in which SIGCHLD is blocked until the
shell ends.
"""

_standard_system = standard.system
_standard_fork: Any = getattr(standard, "fork", None)
_standard_forkpty: Any = getattr(standard, "forkpty", None)
shells: OffloadPool = OffloadPool("os.system", SHELLS)

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


@builtin_function
def system(command: Any) -> int:
    """Run a command in a shell and return its status. Parks: ``offload os.system``. Source: ``os.system``.

    A cancel ends only the caller's wait; the command continues.
    """
    return shells.offload(_standard_system, command)


# Hooks of a fork (``register_at_fork``) hold locks of the OS thread, and some run in the child while the parent's
# dhagas still exist there. No turn may end in these hooks. The functions below call the standard fork. They are not
# call-outs, so no turn ends in the hooks: see ``_kernel/run/call_outs.py``.


@builtin_function
def fork() -> int:
    """Fork a child process. Parks: never. Source: ``os.fork``."""
    pid: int = _standard_fork()
    if pid:
        resume_after_fork()
    return pid


@builtin_function
def forkpty() -> tuple[int, int]:
    """Fork a child process with a new pseudo-terminal. Parks: never. Source: ``os.forkpty``."""
    child: tuple[int, int] = _standard_forkpty()
    if child[0]:
        resume_after_fork()
    return child


def fdopen(
    fd: int, mode: str = "r", buffering: int = -1, encoding: str | None = None, *args: Any, **options: Any
) -> Any:
    """Open a file over an fd. Parks: never; see ``dhaga.io.open``. Source: ``os.fdopen``."""
    if not isinstance(fd, int):
        raise TypeError(f"invalid fd type ({type(fd)}, expected integer)")
    return open_file(fd, mode, buffering, encoding, *args, **options)


# Remove the functions that cannot park on this platform: on Windows, for example, ``read`` and ``waitpid``.
remove_names(globals(), platform.NEVER_PARKING_OS_CALLS)
