"""Waiting for child processes. Only the call that asks for a child reaps it.

One child's exit is waited for through a pidfd (Linux), a file descriptor that becomes readable when the process ends.
No descriptor reports a stopped child, or the exit of *any* child, so those are polled with a growing pause. Exits are
also polled if there are no pidfds (macOS) or no free descriptors.

A thread that blocks in ``waitpid(pid)`` gets the status before a handler of SIGCHLD can ask for any child. Here the
handler runs first. So a call for any child first takes the statuses of awaited children, and keeps them for the waits.

Rejected: SIGCHLD, whose handler belongs to the program; an OS thread blocked in ``waitpid``, which cannot be cancelled.
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
"""First and longest pause between two polls, in seconds. At 50 polls a second each takes 20 µs."""

pidfd_open: Callable[[int], int] | None = getattr(os, "pidfd_open", None)

# The standard library's functions, taken before a patch can replace them.
standard_waitpid = os.waitpid
standard_wait3: Any = getattr(os, "wait3", None)
standard_wait4: Any = getattr(os, "wait4", None)
standard_waitid: Any = getattr(os, "waitid", None)

awaited: dict[FdWatcher, int] = {}
"""The awaited pid of each parked wait, by the watcher of the wait."""

collected: dict[int, tuple[int, int, Any]] = {}
"""The answers of ``wait4`` for awaited children, by pid, until a wait for that child takes one."""


def collect_awaited() -> None:
    """Reap each awaited child that has ended, and keep its status. From: a call for any child, before it waits."""
    for pid in set(awaited.values()):
        with suppress(ChildProcessError):
            answer = standard_wait4(pid, os.WNOHANG)
            if names_child(answer):
                collected[pid] = answer


def take_collected(pid: int) -> tuple[int, int, Any] | None:
    """Return the collected answer for a child, once."""
    answer = collected.pop(pid, None) if collected else None
    return None if answer is not None and is_child(pid) else answer  # a new child of the same number


def forget_children() -> None:
    """Forget, in a forked child, the children of its parent."""
    awaited.clear()
    collected.clear()


system.register_at_fork(after_in_child=forget_children)


def wait_for_exit(pid: int, me: Waiter, timeout: float | None = None) -> bool:
    """Park until a child has ended (``process N``), without reaping it.

    Returns: False after ``timeout`` seconds, or at once if the exit can only be polled for.
    """
    # A pidfd opens for any process. Only a child may be waited for: the caller must get ECHILD for another.
    if pidfd_open is None or not is_child(pid):
        return False
    try:
        fd = pidfd_open(pid)
    except OSError:  # EMFILE, or a kernel older than 5.3
        return False
    # The pidfd and its watcher exist only for this wait.
    watcher = FdWatcher(me.scheduler, fd)
    watcher.read_reason = f"process {pid}"
    awaited[watcher] = pid
    try:
        return watcher.wait_readable(me, timeout) is not TIMED_OUT
    finally:
        awaited.pop(watcher, None)  # a forked child has none
        watcher.close()
        originals.close(fd)


def is_child(pid: int) -> bool:
    """Return whether ``pid`` is an unreaped child: once reaped, its number may belong to another process."""
    try:
        # WNOWAIT leaves the zombie for the caller's own waitpid.
        standard_waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except OSError:
        return False
    return True


def poll_exit(poll: Callable[[int], Any], options: int, pid: int) -> Any:
    """Return ``poll(options)`` as soon as it names a child, or the answer of ``wait4`` that was collected for ``pid``.

    ``pid``: wait only for the exit of this process. Parks: ``process N``, or ``sleep`` between two polls.
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
            # A debugger that traces the child delays its reaping after its exit. The pidfd stays readable in that case:
            # poll from here on.
            polls = True
        else:
            sleep(next(pauses))
    return answer


def names_child(answer: Any) -> bool:
    """Return whether an answer of the operating system names a child. With WNOHANG, pid 0 or None means: none yet."""
    return answer is not None and answer[0] != 0


@builtin_function
def waitpid(pid: int, options: int, /) -> tuple[int, int]:
    """Wait for a child (-1: any; 0, -N: any of a group). Parks: ``process N`` or ``sleep``. Source: ``os.waitpid``."""
    exact_pid = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    # A pidfd reports only the exit: with WUNTRACED or WCONTINUED only polling sees the child stop.
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
    """Wait for a child and return its resource usage. Parks: as ``waitpid``. Source: ``os.wait4``."""
    exact_pid = pid if isinstance(options, int) and not options & (os.WUNTRACED | os.WCONTINUED) else 0
    return poll_exit(lambda flags: standard_wait4(pid, flags), options, max(exact_pid, 0))  # type: ignore[no-any-return]


@builtin_function
def waitid(idtype: int, ident: int, options: int, /) -> Any:
    """Wait for an event of the given kinds in a set of children. Parks: ``sleep``. Source: ``os.waitid``."""
    return poll_exit(lambda flags: standard_waitid(idtype, ident, flags), options, 0)
