"""``gevent.os``: functions of ``os`` that may wait, on dhagas."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import Any

from ..._kernel.faces.stdlib_face import fall_back_to
from ...os import read, waitpid, write
from ...select import select

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(os, globals())

__all__ = [
    "fork", "fork_and_watch", "forkpty", "make_nonblocking", "nb_read", "nb_write", "tp_read", "tp_write", "waitpid",
]  # fmt: skip

fork: Callable[[], int] = os.fork
forkpty: Callable[[], tuple[int, int]] = os.forkpty
tp_read: Callable[[int, int], bytes] = read
tp_write: Callable[[int, Any], int] = write

WNOHANG = os.WNOHANG


def make_nonblocking(fd: int) -> bool | None:
    """Set O_NONBLOCK on an fd. Returns: True if the flag was not set before."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    if flags & os.O_NONBLOCK:
        return None
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    return True


def nb_read(fd: int, n: int) -> bytes:
    """Read from a non-blocking fd. Parks: until data is available."""
    while True:
        try:
            return read(fd, n)
        except BlockingIOError:
            select([fd], [], [])


def nb_write(fd: int, buf: Any) -> int:
    """Write to a non-blocking fd. Parks: until the fd is writable. Returns: the number of bytes written."""
    while True:
        try:
            return write(fd, buf)
        except BlockingIOError:
            select([], [fd], [])


def fork_and_watch(
    callback: Callable[..., Any] | None = None, loop: Any = None, ref: bool = False, fork: Callable[[], int] = fork
) -> int:
    """Fork a child process. Only ``waitpid`` reports the end of the child; a callback is refused."""
    if callback is not None:
        raise NotImplementedError("wait for a child in a greenlet of its own: gevent.spawn(os.waitpid, pid, 0)")
    return fork()
