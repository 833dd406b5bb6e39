"""Where the inspector of a process is reached: at a Unix socket, or at a port of the loopback interface.

The process makes an endpoint, and the client connects to it. Neither tells anything to another user, or to a process
that has taken the place of the one asked for.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Protocol

from ..._kernel.platform.system import system
from . import loopback, unix_socket
from .not_answered import NotAnswered


class Endpoint(Protocol):
    """A ``listener``, and the file by which a client finds it."""

    path: Path
    listener: socket.socket

    def may_ask(self, connection: socket.socket) -> bool:
        """Return whether a client is of this process's user, or an administrator."""


def endpoint_of(pid: int) -> Endpoint:
    """Return a new endpoint for this process. Raises: OSError."""
    return unix_socket.Endpoint(pid) if system.UNIX_SOCKETS else loopback.Endpoint(pid)


def connect(pid: int) -> socket.socket:
    """Connect to the inspector of a process. Raises: NotAnswered."""
    if not system.process_lives(pid):
        raise NotAnswered(f"there is no process {pid}")
    return unix_socket.connect(pid) if system.UNIX_SOCKETS else loopback.connect(pid)
