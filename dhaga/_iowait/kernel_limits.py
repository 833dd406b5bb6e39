"""A socket's options for the maximum time of a wait: SO_RCVTIMEO and SO_SNDTIMEO of socket(7).

These limits apply if the socket has no timeout of its own; a call that exceeds them fails with EAGAIN. The watchers of
the fd enforce the limits (``LimitedWaits``).
"""

from __future__ import annotations

import _socket
import os
import socket as standard
import stat
from typing import Any

from .._kernel.platform.system import system
from .._kernel.run.fd_watch import UNLIMITED

LIMITS = standard.SO_RCVTIMEO, standard.SO_SNDTIMEO


def seconds_of(sock: Any, option: int) -> float | None:
    """Return the limit of a socket option in seconds; None means no limit."""
    try:
        value = _socket.socket.getsockopt(sock, standard.SOL_SOCKET, option, system.LIMIT_SIZE)
    except OSError:  # the operation itself raises a better error
        return None
    return system.seconds_of_limit(value)


def limits_of(sock: Any) -> tuple[float | None, float | None]:
    """Return the limits of a socket for receiving and sending."""
    return seconds_of(sock, LIMITS[0]), seconds_of(sock, LIMITS[1])


def limits_of_fd(fd: int) -> tuple[float | None, float | None]:
    """Return the limits of an fd, which need not be a socket."""
    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return UNLIMITED
    sock = _socket.socket(fileno=fd)
    try:
        return limits_of(sock)
    finally:
        sock.detach()
