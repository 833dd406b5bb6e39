"""Wait for the answer to a C library's query, and cut its connection off when the wait ends without one.

A later query would take that answer for its own, and some libraries wait in C until the server has confirmed the
cancel of a query. After the cut, each call of the library ends at once, with its own error for a lost server.
"""

from __future__ import annotations

import os
import socket as standard
from contextlib import suppress

from ..select import POLLIN, poll


def cut_off(fd: int) -> None:
    """Shut a connection down in both directions; the library still owns its fd."""
    with standard.socket(fileno=os.dup(fd)) as sock, suppress(OSError):  # it has ended already
        sock.shutdown(standard.SHUT_RDWR)


def answers(fd: int, timeout: float | None) -> bool:
    """Return whether the server answers in time; if not, the connection is cut off, like on a cancel.

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
