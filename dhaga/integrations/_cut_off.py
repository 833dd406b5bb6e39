"""Waits for a server's answer to a C library's query. If the wait ends without an answer, the connection is cut off.

Without the cut-off, a later query would read the late answer as its own, and some libraries would wait in C until the
server confirms the cancel of a query. After the cut-off, each call fails at once with the library's error for a lost
server.
"""

from __future__ import annotations

import os
import socket as standard
from contextlib import suppress

from ..select import POLLIN, poll


def cut_off(fd: int) -> None:
    """Shut a connection down in both directions. The library still owns the fd."""
    with standard.socket(fileno=os.dup(fd)) as sock, suppress(OSError):  # the connection has already ended
        sock.shutdown(standard.SHUT_RDWR)


def answers(fd: int, timeout: float | None) -> bool:
    """Return whether the server answers in time. On a timeout or an error, such as a cancel, cut the connection off.

    Parks: until the first byte of the answer (``poll``).
    """
    polled = poll()
    polled.register(fd, POLLIN)
    try:
        answered = bool(polled.poll(None if timeout is None else timeout * 1000))
    except BaseException:
        cut_off(fd)
        raise
    if not answered:
        cut_off(fd)
    return answered
