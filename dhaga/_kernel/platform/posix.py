"""Forks, signals, idents and waits for file descriptors on POSIX systems. ``windows`` defines the same names.

This module imports only standard modules, so that every other part of the kernel may import ``posix``. Names that are
functions of the standard library, such as ``duplicate``, are set before a patch can replace these functions.
"""

from __future__ import annotations

import errno
import os
import select
import selectors
import signal
import socket
import struct
import sys

# ``signal.pthread_sigmask`` converts each number of a mask to an enum. For a full mask this takes 40 µs.
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask  # type: ignore[import-not-found]
from collections.abc import Iterable
from fcntl import F_GETFL, fcntl, ioctl
from termios import FIONREAD
from typing import Any

INSTEAD: dict[str, str] = {}
"""Hints for names of the standard library that the system lacks. On POSIX no name needs a hint."""

MISSING_OPTIONS: dict[str, str] = {}
"""Hints for options of ``python -m dhaga serve`` that the system cannot offer."""

# ---- processes

FORKS = True


def process_lives(pid: int) -> bool:
    """Return whether a process with this PID exists, whichever user owns it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


register_at_fork = os.register_at_fork

# ---- threads

IDENTS_ABOVE = 0
"""The lower bound of the idents of dhagas. Idents of OS threads are addresses, which are far greater."""

UNWINDER = "libgcc_s.so.1" if sys.platform == "linux" else None
"""The library with the functions that walk the C stack; None if the program itself contains these functions."""

# ---- signals

DRAIN_SIGNAL = int(signal.SIGTERM)
"""The signal that makes a server finish its requests and end."""

END_SIGNALS = (int(signal.SIGINT), int(signal.SIGQUIT))
"""The signals that make a server end at once."""

NEVER_BLOCKED = frozenset({int(signal.SIGKILL), int(signal.SIGSTOP)})
"""The signals that cannot be blocked."""


def signal_mask() -> frozenset[int]:
    """Return the signals that the calling thread blocks. Raises: in the main thread, errors of signal handlers."""
    return frozenset(pthread_sigmask(SIG_BLOCK, ()))


def set_signal_mask(mask: Iterable[int]) -> None:
    """Block these signals in the calling thread, and unblock all others."""
    pthread_sigmask(SIG_SETMASK, mask)


def block_signals(numbers: Iterable[int]) -> None:
    """Block these signals in the calling thread, in addition to those already blocked."""
    pthread_sigmask(SIG_BLOCK, numbers)


standard_pthread_kill = signal.pthread_kill


def send_signal(ident: int, number: int) -> None:
    """Send a signal to an OS thread. The signal also interrupts the thread's system call."""
    standard_pthread_kill(ident, number)


def end_by_ctrl_c() -> None:
    """End the process with SIGINT, as Python does, so that a shell detects the Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


# ---- file descriptors

# ``poll`` is None on systems that have only select(2), which accepts no fd above 1023.
poll: Any = getattr(select, "poll", None)
POLLIN, POLLOUT = select.POLLIN, select.POLLOUT

Selector = selectors.DefaultSelector

open_wakeup_pipe = os.pipe
"""The function that opens a wakeup pipe. A write to the pipe ends a ``poll`` of its reading end."""

write_wakeup, close_wakeup = os.write, os.close

duplicate, close_duplicate = os.dup, os.close
"""Functions that duplicate an fd and close the duplicate, which an event loop watches instead of the fd."""

O_NONBLOCK, O_ACCMODE = os.O_NONBLOCK, os.O_ACCMODE

PIPE_BUF = select.PIPE_BUF
READS_KEYS = True
"""Whether ``python -m dhaga top`` can read single keys from a terminal."""

TERMINAL_MASTER = os.makedev(5, 2)

readv, writev = os.readv, os.writev

WAITS_FOR_FILES = True
"""Whether the system can wait for pipes, terminals and processes in addition to sockets."""

NEVER_PARKING_OS_CALLS: tuple[str, ...] = ()
"""Functions of ``dhaga.os`` that cannot park, because the system cannot wait for their files or processes."""


def access_mode(fd: int) -> int:
    """Return the mode in which an fd was opened: O_RDONLY, O_WRONLY or O_RDWR."""
    return fcntl(fd, F_GETFL) & os.O_ACCMODE


# ---- sockets

UNIX_SOCKETS = True
AF_UNIX = int(socket.AF_UNIX)
PAIR_FAMILY: int | None = None
"""The default family of ``socketpair``; None for the standard library's default."""

MSG_DONTWAIT = int(socket.MSG_DONTWAIT)

# On systems other than Linux a send may block in spite of the flag, so on those systems the fd itself is made
# non-blocking.
DONTWAIT = MSG_DONTWAIT if sys.platform == "linux" else 0
"""The flag that keeps each call on a socket from blocking; 0 if the fd itself is non-blocking."""

CONNECT_IN_PROGRESS = (errno.EINPROGRESS, errno.EALREADY)

TIMEVAL = struct.Struct("ll")
LIMIT_SIZE = TIMEVAL.size
NO_LIMIT = bytes(LIMIT_SIZE)


def seconds_of_limit(value: bytes) -> float | None:
    """Return the value of SO_RCVTIMEO or SO_SNDTIMEO in seconds; None if there is no limit."""
    if value == NO_LIMIT:
        return None
    seconds, microseconds = TIMEVAL.unpack(value)
    return float(seconds + microseconds / 1e6)


def socket_error(number: int) -> OSError:
    """Return the error for an error number of a call on a socket."""
    return OSError(number, os.strerror(number))


def identity_of_socket(fd: int) -> tuple[int, int]:
    """Return a key that is the same for all duplicates of a socket."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


ZERO_BYTES = bytes(4)  # the answer of FIONREAD for an empty socket: a C int


def has_input(fd: int) -> bool:
    """Return whether a socket has bytes to read. The call takes 1 µs."""
    return ioctl(fd, FIONREAD, ZERO_BYTES) != ZERO_BYTES
