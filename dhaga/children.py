"""Child processes: how a dhaga waits for them. Only those that it asks for are reaped, and only when it gets them.

On Linux a pidfd tells of the end of a process. What no file descriptor tells of, any child or one that is stopped, is
asked for from time to time; so are all where there are no pidfds, or no more descriptors.

Rejected: SIGCHLD, whose handler belongs to the program, and an OS thread that waits, which none can call back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .kernel import originals
from .kernel.channel import Channel
from .kernel.scheduler import sleep
from .kernel.waiter import Waiter
from .parkers import parker

__all__ = ["wait", "wait3", "wait4", "waitid", "waitpid"]

PAUSES = 0.0005, 0.02
"""First and longest pause between two questions, in seconds. Of 50 a second one takes 20 µs."""

pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)

# The standard library's own, taken before anybody can patch them.
standard_waitpid, standard_wait3, standard_wait4 = os.waitpid, os.wait3, os.wait4
standard_waitid: Any = getattr(os, "waitid", None)


def await_end(pid: int, me: Waiter, timeout: float | None = None) -> bool:
    """Park until a child has ended (``process N``); it is not reaped. Returns: False after ``timeout`` seconds, or at
    once where nothing but asking tells of its end.
    """
    if pidfd_open is None or not is_child(pid):
        return False
    try:
        fd = pidfd_open(pid)
    except OSError:  # EMFILE, or a kernel without
        return False
    channel = Channel(me.scheduler, fd)
    channel.reading = f"process {pid}"
    try:
        channel.wait_readable(me, timeout)
    except TimeoutError:
        return False
    finally:
        channel.close()
        originals.close(fd)
    return True


def is_child(pid: int) -> bool:
    """Tell whether there is a child of this number to wait for: a number that was reaped may be somebody else's."""
    try:
        standard_waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True


def asking(ask: Callable[[int], Any], options: int, pid: int = 0) -> Any:
    """Return ``ask(options)`` as soon as there is an answer. ``pid``: the end of that process is all it waits for.

    Parks: ``process N``, or ``sleep`` between two questions.
    """
    me = None if options & os.WNOHANG else parker()
    if me is None:
        return ask(options)
    pause, longest = PAUSES
    while not told(answer := ask(options | os.WNOHANG)):
        if pid and await_end(pid, me):
            pid = 0  # should it not be there to be reaped yet, as a debugger has it, its pidfd tells nothing more
        else:
            sleep(pause)
            pause = min(2 * pause, longest)
    return answer


def told(answer: Any) -> bool:
    """Tell whether an answer of the operating system names a child."""
    return answer is not None and answer[0] != 0


def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """Wait for a child (-1: any; 0, -N: any of a group). Parks: ``process N`` or ``sleep``. Source: ``os.waitpid``."""
    alone = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    return asking(lambda flags: standard_waitpid(pid, flags), options, max(alone, 0))  # type: ignore[no-any-return]


def wait() -> tuple[int, int]:
    """Wait for any child. Parks: ``sleep``, between two questions. Source: ``os.wait``."""
    return asking(lambda flags: standard_waitpid(-1, flags), 0)  # type: ignore[no-any-return]


def wait3(options: int) -> tuple[int, int, Any]:
    """Wait for any child and learn what it has used. Parks: ``sleep``. Source: ``os.wait3``."""
    return asking(standard_wait3, options)  # type: ignore[no-any-return]


def wait4(pid: int, options: int) -> tuple[int, int, Any]:
    """Wait for a child and learn what it has used. Parks: as ``waitpid``. Source: ``os.wait4``."""
    alone = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    return asking(lambda flags: standard_wait4(pid, flags), options, max(alone, 0))  # type: ignore[no-any-return]


def waitid(idtype: int, ident: int, options: int, /) -> Any:
    """Wait for a child of a kind, for an event of a kind. Parks: ``sleep``. Source: ``os.waitid``."""
    return asking(lambda flags: standard_waitid(idtype, ident, flags), options)
