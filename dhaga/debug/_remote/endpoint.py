"""The endpoint at which clients reach the inspector of a process: a Unix socket, or a port of the loopback interface.

The process creates an endpoint, and the client connects to it. Neither side sends data to another user, or to a process
that has replaced the requested process. On platforms with Unix sockets but without ``SO_PEERCRED``, only the access
rights of the socket's directory ensure this.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Protocol

from ..._kernel.platform.system import system
from . import loopback, unix_socket
from .not_answered import NotAnswered


class Endpoint(Protocol):
    """A ``listener``, and the file through which a client finds the listener."""

    path: Path
    listener: socket.socket

    def may_ask(self, connection: socket.socket) -> bool:
        """Return whether a client belongs to this process's user or to an administrator."""


def endpoint_of(pid: int) -> Endpoint:
    """Return a new endpoint for this process. Raises: OSError."""
    return unix_socket.Endpoint(pid) if system.UNIX_SOCKETS else loopback.Endpoint(pid)


def connect(pid: int) -> socket.socket:
    """Connect to the inspector of a process. Raises: NotAnswered."""
    if not system.process_lives(pid):
        raise NotAnswered(f"there is no process {pid}")
    return unix_socket.connect(pid) if system.UNIX_SOCKETS else loopback.connect(pid)
