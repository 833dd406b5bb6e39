"""Forks, signals, idents and waits for file descriptors, as POSIX has them. ``windows`` has the same names.

Standard modules only: every other part of the kernel may import this. The functions are the standard library's own,
taken before a patch can replace them.
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

# Not signal's own: that converts each number of a mask to an enum, 40 µs for a full one.
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask  # type: ignore[import-not-found]
from collections.abc import Iterable
from fcntl import F_GETFL, fcntl, ioctl
from termios import FIONREAD
from typing import Any

INSTEAD: dict[str, str] = {}
"""Hints for names of the standard library that the system lacks. POSIX lacks none that Windows has."""

MISSING_OPTIONS: dict[str, str] = {}
"""Hints for options of ``python -m dhaga serve`` that the system cannot offer."""

# ---- processes

FORKS = True


def process_lives(pid: int) -> bool:
    """Return whether there is a process of this PID, of any user."""
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
"""Idents of dhagas are greater than this; one of an OS thread is an address, and far greater."""

UNWINDER = "libgcc_s.so.1" if sys.platform == "linux" else None
"""The library that walks the C stack; None: it is in the program itself."""

# ---- signals

DRAIN_SIGNAL = int(signal.SIGTERM)
"""The signal after which a server finishes its requests."""

END_SIGNALS = (int(signal.SIGINT), int(signal.SIGQUIT))
"""Signals that end a server at once."""

NEVER_BLOCKED = frozenset({int(signal.SIGKILL), int(signal.SIGSTOP)})
"""Signals that no mask holds off."""


def signal_mask() -> frozenset[int]:
    """Return the signals that the calling thread blocks. Raises: errors of handlers of signals, in the main thread."""
    return frozenset(pthread_sigmask(SIG_BLOCK, ()))


def set_signal_mask(mask: Iterable[int]) -> None:
    """Block these signals in the calling thread, and no others."""
    pthread_sigmask(SIG_SETMASK, mask)


def block_signals(numbers: Iterable[int]) -> None:
    """Block more signals in the calling thread."""
    pthread_sigmask(SIG_BLOCK, numbers)


standard_pthread_kill = signal.pthread_kill


def send_signal(ident: int, number: int) -> None:
    """Send a signal to an OS thread: it also ends the system call that the thread is in."""
    standard_pthread_kill(ident, number)


def end_by_ctrl_c() -> None:
    """End the process by SIGINT, as Python does, so that a shell sees the Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


# ---- file descriptors

# By any means but select(2), which takes no fd above 1023.
poll: Any = getattr(select, "poll", None)
POLLIN, POLLOUT = select.POLLIN, select.POLLOUT

Selector = selectors.DefaultSelector

open_wakeup_pipe = os.pipe
"""A pipe that ends a ``poll`` of its reading end."""

write_wakeup, close_wakeup = os.write, os.close

duplicate, close_duplicate = os.dup, os.close
"""For an fd that an event loop watches."""

O_NONBLOCK, O_ACCMODE = os.O_NONBLOCK, os.O_ACCMODE

PIPE_BUF = select.PIPE_BUF
READS_KEYS = True
"""Whether ``top`` can read the keys of a terminal one by one."""

TERMINAL_MASTER = os.makedev(5, 2)

readv, writev = os.readv, os.writev

WAITS_FOR_FILES = True
"""Whether pipes, terminals and processes can be waited for, and not only sockets."""

NEVER_PARKING_OS_CALLS: tuple[str, ...] = ()
"""Functions of ``dhaga.os`` that cannot park: the system cannot wait for what they wait for."""


def access_mode(fd: int) -> int:
    """Return for what an fd was opened: O_RDONLY, O_WRONLY or O_RDWR."""
    return fcntl(fd, F_GETFL) & os.O_ACCMODE


# ---- sockets

UNIX_SOCKETS = True
AF_UNIX = int(socket.AF_UNIX)
PAIR_FAMILY: int | None = None
"""The family of ``socketpair`` by default; None: the standard's own choice."""

MSG_DONTWAIT = int(socket.MSG_DONTWAIT)

# Elsewhere a send may block in spite of the flag, so there the fd itself is made non-blocking.
DONTWAIT = MSG_DONTWAIT if sys.platform == "linux" else 0
"""The flag with which each call on a socket keeps from blocking; 0: the fd is non-blocking."""

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
    """Return the error of a call on a socket."""
    return OSError(number, os.strerror(number))


def identity_of_socket(fd: int) -> tuple[int, int]:
    """Return a key that the duplicates of a socket share."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


ZERO_BYTES = bytes(4)  # the answer of FIONREAD for an empty socket: a C int


def has_input(fd: int) -> bool:
    """Return whether a socket has bytes to read. It costs 1 µs."""
    return ioctl(fd, FIONREAD, ZERO_BYTES) != ZERO_BYTES
