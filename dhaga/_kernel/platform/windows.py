"""The names of ``posix`` on Windows, which has no forks and no signal masks, and can wait only for sockets.

On Windows a socket's ``fileno()`` is a handle, which ``os.dup``, ``os.read`` and ``os.close`` do not accept.
Rejected: a Proactor loop, which reports the end of an operation instead of readiness. The sockets of Dhaga, Tornado and
asyncio's ``add_reader`` need readiness.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import os
import select
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

INSTEAD = {
    **dict.fromkeys(("os.fork", "os.forkpty"), "no process forks here: start one with dhaga.subprocess"),
    **dict.fromkeys(
        ("os.wait", "os.wait3", "os.wait4", "os.waitid", "os.pidfd_open", "signal.SIGCHLD"),
        "wait for a process with dhaga.subprocess.Popen(...).wait()",
    ),
    **dict.fromkeys(("os.readv", "os.preadv", "os.RWF_NOWAIT"), "read the file with dhaga.open"),
    **dict.fromkeys(("os.writev", "os.pwritev", "os.sendfile", "os.splice"), "write with dhaga.open"),
    **dict.fromkeys(("signal.pause", "signal.sigwait"), "wait for a dhaga.threading.Event that a handler sets"),
    **dict.fromkeys(("select.poll", "select.epoll", "select.kqueue"), "wait with dhaga.selectors"),
}
"""Hints for names that the standard modules lack on Windows."""

MISSING_OPTIONS = {
    "--workers": "no process forks; start several at ports of their own, with a proxy before them, or use --threads",
    "--reuse-port": "no process shares a port with another; start several at ports of their own",
    "--bind unix:": "there are no Unix sockets; give HOST:PORT",
}

# ---- processes

FORKS = False

ACCESS_DENIED, MAY_QUERY, STILL_ACTIVE = 5, 0x1000, 259


def process_lives(pid: int) -> bool:
    """Return whether a process with this PID exists. (On Windows ``os.kill(pid, 0)`` would send a Ctrl-C.)"""
    import _winapi  # type: ignore[import-not-found, unused-ignore]

    try:
        handle = _winapi.OpenProcess(MAY_QUERY, False, pid)  # type: ignore[attr-defined, unused-ignore]
    except OverflowError:
        return False
    except OSError as error:
        return bool(error.winerror == ACCESS_DENIED)  # type: ignore[attr-defined, unused-ignore]
    try:
        return bool(_winapi.GetExitCodeProcess(handle) == STILL_ACTIVE)  # type: ignore[attr-defined, unused-ignore]
    finally:
        _winapi.CloseHandle(handle)  # type: ignore[attr-defined, unused-ignore]


def register_at_fork(
    *,
    before: Callable[[], Any] | None = None,
    after_in_parent: Callable[[], Any] | None = None,
    after_in_child: Callable[[], Any] | None = None,
) -> None:
    """Do nothing, because no process forks on Windows."""


# ---- threads

IDENTS_ABOVE = 1 << 32
"""The lower bound of the idents of dhagas. Idents of OS threads have 32 bits, and are reused."""

UNWINDER = "no library walks the C stack here"

# ---- signals

DRAIN_SIGNAL = int(getattr(signal, "SIGBREAK", 21))
"""Ctrl-Break, the only signal besides Ctrl-C that another process can send."""

END_SIGNALS = (int(signal.SIGINT),)

NEVER_BLOCKED: frozenset[int] = frozenset()


def signal_mask() -> frozenset[int]:
    """Return an empty set, because no thread can block a signal: the system starts a new thread to handle a Ctrl-C."""
    return frozenset()


def set_signal_mask(mask: Iterable[int]) -> None:
    """Do nothing, because no thread can block a signal."""


def block_signals(numbers: Iterable[int]) -> None:
    """Do nothing, because no thread can block a signal."""


def send_signal(ident: int, number: int) -> None:
    """Simulate a signal: the main thread calls the handler. On Windows a signal does not interrupt a system call."""
    _thread.interrupt_main(number)  # type: ignore[arg-type]


STATUS_CONTROL_C_EXIT = 0xC000013A


def end_by_ctrl_c() -> None:
    """End the process with the status that means a Ctrl-C to a shell, as Python does."""
    os._exit(STATUS_CONTROL_C_EXIT - (1 << 32))  # C expects a signed number


# ---- sockets, as file descriptors

POLLIN, POLLOUT = 1, 4
"""The usual values of these flags on systems with poll(2)."""

standard_select = select.select


class Selector(selectors.SelectSelector):
    """The standard selector. It uses the standard ``select`` function even under a patch."""

    def fileno(self) -> int:
        """Return -1, because this selector has no fd."""
        return -1

    def _select(self, readers: Any, writers: Any, _: object, timeout: float | None = None) -> Any:
        # A refused connection is reported only in the third set.
        readable, writable, failed = standard_select(readers, writers, writers, timeout)
        return readable, [*writable, *failed], []


class poll:
    """A substitute for ``select.poll`` that calls ``select.select``. It accepts only sockets, at most 512."""

    def __init__(self) -> None:
        self.events_by_fd: dict[int, int] = {}

    def register(self, fd: Any, events: int = POLLIN | POLLOUT) -> None:
        """Register a socket for POLLIN, POLLOUT or both."""
        self.events_by_fd[fd if isinstance(fd, int) else fd.fileno()] = events

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """Wait for an event, at most ``timeout`` milliseconds. Returns: pairs of a socket and its events."""
        seconds = None if timeout is None or timeout < 0 else timeout / 1000
        readers = [fd for fd, events in self.events_by_fd.items() if events & POLLIN]
        writers = [fd for fd, events in self.events_by_fd.items() if events & POLLOUT]
        if not self.events_by_fd:  # select() rejects empty sets
            time.sleep(seconds or 0)
            return []
        # A refused connection is reported only in the third set.
        readable, writable, failed = standard_select(readers, writers, list(self.events_by_fd), seconds)
        found = dict.fromkeys(readable, POLLIN)
        for fd in writable:
            found[fd] = found.get(fd, 0) | POLLOUT
        for fd in failed:
            found[fd] = found.get(fd, 0) | self.events_by_fd[fd]
        return list(found.items())


standard_socketpair = socket.socketpair


def open_wakeup_pipe() -> tuple[int, int]:
    """Return two connected sockets, because select(2) does not accept pipes on Windows."""
    one, other = standard_socketpair()
    return one.detach(), other.detach()


def write_wakeup(fd: int, data: bytes) -> int:
    """Write to a wakeup pipe. Return the number of bytes written."""
    end = _socket.socket(fileno=fd)
    try:
        return end.send(data)
    finally:
        end.detach()


close_wakeup: Callable[[int], None] = _socket.close

duplicate: Callable[[int], int] = _socket.dup
close_duplicate: Callable[[int], None] = _socket.close

# ---- other file descriptors

O_NONBLOCK, O_ACCMODE = 0, os.O_RDONLY | os.O_WRONLY | os.O_RDWR

PIPE_BUF = 512
"""The smallest value that POSIX allows."""

READS_KEYS = False
TERMINAL_MASTER = -1

readv: Any = None
writev: Any = None

WAITS_FOR_FILES = False

NEVER_PARKING_OS_CALLS = (
    *("eventfd_read", "eventfd_write", "fork", "forkpty", "read", "readinto", "readv", "sendfile", "splice", "wait"),
    *("wait3", "wait4", "waitid", "waitpid", "write", "writev"),
)


def access_mode(fd: int) -> int:
    """Return O_RDWR, because the system does not report the mode in which a file was opened."""
    return os.O_RDWR


# ---- sockets

UNIX_SOCKETS = False
AF_UNIX = -1
PAIR_FAMILY: int | None = int(socket.AF_INET)
MSG_DONTWAIT = DONTWAIT = 0
CONNECT_IN_PROGRESS = (errno.EWOULDBLOCK, errno.EINPROGRESS, errno.EALREADY)

DWORD = struct.Struct("I")
LIMIT_SIZE = DWORD.size


def seconds_of_limit(value: bytes) -> float | None:
    """Convert a value of SO_RCVTIMEO or SO_SNDTIMEO from milliseconds to seconds; return None if there is no limit."""
    (milliseconds,) = DWORD.unpack(value)
    return milliseconds / 1e3 if milliseconds else None


def socket_error(number: int) -> OSError:
    """Return the error for an error number of a call on a socket. The numbers are error codes of Windows."""
    from ctypes import FormatError  # type: ignore[attr-defined]

    return OSError(0, FormatError(number).strip(), None, number)


def identity_of_socket(fd: int) -> tuple[int, int]:
    """Return a key that is unique to a socket, because the system does not report which sockets are duplicates."""
    return 0, fd


def has_input(fd: int) -> bool:
    """Return whether a socket has bytes to read, or its peer has closed the connection."""
    return bool(standard_select([fd], [], [], 0)[0])
