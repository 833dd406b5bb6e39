"""``waitpid`` and the other functions of ``os`` that wait for child processes. They park the caller.

On Linux, a call waits for the exit of one child through a pidfd, a file descriptor that becomes readable when the
process ends. No descriptor reports a stopped child, or the exit of *any* child, so calls poll for these events with a
growing pause. Calls also poll if there are no pidfds (macOS) or no free descriptors.

A SIGCHLD handler may call ``waitpid(-1)``, which waits for any child. An OS thread that blocks in ``waitpid(pid)`` gets
the child's status before this handler runs. If the caller of ``waitpid(pid)`` is parked instead, the handler runs
first, and would take the status. So a call for any child first reaps the children that other calls wait for, and stores
their statuses for these calls.

Rejected: a handler for SIGCHLD, because the program may set its own handler. Rejected: a blocking ``waitpid`` in an OS
thread, because it cannot be cancelled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .._kernel import originals
from .._kernel.backoff import backoff
from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.platform.system import system
from .._kernel.run.fd_watch import FdWatcher
from .._kernel.run.scheduler import sleep
from .._kernel.wait.current import parking_waiter
from .._kernel.wait.waiter import TIMED_OUT, Waiter

__all__ = ["wait", "wait3", "wait4", "waitid", "waitpid"]

PAUSES = 0.0005, 0.02
"""First and longest pause between two polls, in seconds. At the longest pause, a caller polls 50 times per second. A
poll takes 20 µs, so these polls take 0.1 % of a CPU.
"""

pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)

# The standard library's functions, taken before a patch can replace them.
standard_waitpid = os.waitpid
standard_wait3: Any = getattr(os, "wait3", None)
standard_wait4: Any = getattr(os, "wait4", None)
standard_waitid: Any = getattr(os, "waitid", None)

awaited: dict[FdWatcher, int] = {}
"""The pid that each parked call waits for, by the call's watcher."""

collected: dict[int, tuple[int, int, Any]] = {}
"""The results of ``wait4`` for reaped children, by pid. The call that waits for a child removes its result."""


def collect_awaited() -> None:
    """Reap each ended child that a parked call waits for, and store its status. From: a call for any child."""
    for pid in set(awaited.values()):
        with suppress(ChildProcessError):
            answer = standard_wait4(pid, os.WNOHANG)
            if names_child(answer):
                collected[pid] = answer


def take_collected(pid: int) -> tuple[int, int, Any] | None:
    """Remove and return the stored result for a child; None if no result is stored."""
    answer = collected.pop(pid, None) if collected else None
    return None if answer is not None and is_child(pid) else answer  # None if a new child has the same number


def forget_children() -> None:
    """Discard the records of the parent's children. From: a forked process."""
    awaited.clear()
    collected.clear()


system.register_at_fork(after_in_child=forget_children)


def wait_for_exit(pid: int, me: Waiter, timeout: float | None = None) -> bool:
    """Park until a child has ended (``process N``), without reaping it.

    Returns: False after ``timeout`` seconds, or at once if the caller has to poll for the exit.
    """
    # A pidfd can be opened for any process, but the caller must get ECHILD unless the process is a child.
    if pidfd_open is None or not is_child(pid):
        return False
    try:
        fd = pidfd_open(pid)
    except OSError:  # EMFILE, or a kernel older than 5.3
        return False
    # The pidfd and its watcher are used only for this wait.
    watcher = FdWatcher(me.scheduler, fd)
    watcher.read_reason = f"process {pid}"
    awaited[watcher] = pid
    try:
        return watcher.wait_readable(me, timeout) is not TIMED_OUT
    finally:
        awaited.pop(watcher, None)  # already removed in a forked child
        watcher.close()
        originals.close(fd)


def is_child(pid: int) -> bool:
    """Return whether ``pid`` is an unreaped child; the number of a reaped child may belong to another process."""
    try:
        # WNOWAIT does not reap the child, so that the caller's own waitpid() can reap it.
        standard_waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True


def poll_exit(poll: Callable[[int], Any], options: int, pid: int) -> Any:
    """Return the first result of ``poll(options)`` that names a child, or the stored result of ``wait4`` for ``pid``.
    With WNOHANG, return the first result in any case.

    ``pid``: the process whose exit is the only awaited event; 0 for any other wait. Parks: ``process N``, or ``sleep``
    between two polls.
    """
    if not pid and awaited:
        collect_awaited()
    if pid and (answer := take_collected(pid)):
        return answer
    me = None if options & os.WNOHANG else parking_waiter()
    if me is None:
        return poll(options)
    pauses = backoff(*PAUSES)
    polls = not pid
    while not names_child(answer := take_collected(pid) or poll(options | os.WNOHANG)):
        if not polls and wait_for_exit(pid, me):
            # A child that a debugger traces cannot be reaped right after its exit, but the pidfd stays
            # readable. So only poll from now on.
            polls = True
        else:
            sleep(next(pauses))
    return answer


def names_child(answer: Any) -> bool:
    """Return whether a result of the system call names a child. With WNOHANG, pid 0 or None means no child yet."""
    return answer is not None and answer[0] != 0


@builtin_function
def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """Wait for a child; ``pid`` -1 means any child, 0 any child of the caller's process group, and -N any child of the
    group N. Parks: ``process N`` or ``sleep``. Source: ``os.waitpid``.
    """
    exact_pid = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    # A pidfd reports only the exit, so with WUNTRACED or WCONTINUED the call polls.
    answer = poll_exit(lambda flags: standard_waitpid(pid, flags), options, max(exact_pid, 0))
    return answer[0], answer[1]


@builtin_function
def wait() -> tuple[int, int]:
    """Wait for any child. Parks: ``sleep`` between two polls. Source: ``os.wait``."""
    return poll_exit(lambda flags: standard_waitpid(-1, flags), 0, 0)  # type: ignore[no-any-return]


@builtin_function
def wait3(options: int) -> tuple[int, int, Any]:
    """Wait for any child and return its resource usage. Parks: ``sleep``. Source: ``os.wait3``."""
    return poll_exit(standard_wait3, options, 0)  # type: ignore[no-any-return]


@builtin_function
def wait4(pid: int, options: int) -> tuple[int, int, Any]:
    """Wait for a child and return its resource usage. Parks: like ``waitpid``. Source: ``os.wait4``."""
    exact_pid = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    return poll_exit(lambda flags: standard_wait4(pid, flags), options, max(exact_pid, 0))  # type: ignore[no-any-return]


@builtin_function
def waitid(idtype: int, ident: int, options: int, /) -> Any:
    """Wait for an event of the given kinds in a set of children. Parks: ``sleep``. Source: ``os.waitid``."""
    return poll_exit(lambda flags: standard_waitid(idtype, ident, flags), options, 0)
