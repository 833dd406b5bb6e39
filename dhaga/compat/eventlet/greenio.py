"""``eventlet.greenio``: sockets and pipes whose waits park."""

from __future__ import annotations

import errno
import os
from typing import Any

from ... import socket as ours
from ...io import open as open_
from ...socket import SHUT_RDWR

__all__ = ["GreenPipe", "GreenSocket", "shutdown_safe"]


__path__: list[str] = []  # a package for ``import``: eventlet.greenio.base is this module

CONNECT_ERR = {errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK}
CONNECT_SUCCESS = {0, errno.EISCONN}
CLIENT_GONE = errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN


# A super() at each call would cost as much as the addition.
_plain_recv, _plain_recv_into = ours.socket.recv, ours.socket.recv_into


class GreenSocket(ours.socket):
    """A socket of ``eventlet.listen`` and ``connect``: a reset connection reads as ended, as in eventlet."""

    def __init__(self, family: Any = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        if isinstance(family, ours.standard_socket):  # a socket to be made green
            super().__init__(family.family, family.type, family.proto, fileno=family.detach())
        else:
            super().__init__(family, type, proto, fileno=fileno)

    def accept(self) -> tuple[ours.socket, Any]:
        """Accept a connection. Parks: until one arrives. Returns: a GreenSocket, and the peer's address."""
        fd, address = self.read_when_ready(0, ours.accept_once)
        return GreenSocket(self.family, self.type, self.proto, fileno=fd), address

    def dup(self) -> GreenSocket:
        """Return a GreenSocket of the same connection."""
        twin = GreenSocket(self.family, self.type, self.proto, fileno=os.dup(self.fileno()))
        twin.settimeout(self.gettimeout())
        return twin

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive up to ``bufsize`` bytes; b"" after the end or a reset. Parks: while there are none."""
        try:
            return _plain_recv(self, bufsize, flags)
        except OSError as error:
            if error.errno not in CLIENT_GONE:
                raise
            return b""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer; 0 after the end or a reset. Parks: while there is nothing."""
        try:
            return _plain_recv_into(self, buffer, nbytes, flags)
        except OSError as error:
            if error.errno not in CLIENT_GONE:
                raise
            return 0


def wrapped(sock: ours.socket) -> ours.socket:
    """Return the socket itself; in eventlet it is the socket that a GreenSocket wraps."""
    return sock


# An attribute of all sockets, because sockets of patched programs are no GreenSockets here. Swift's proxy closes it.
ours.socket.fd = ours.socket._sock = property(wrapped)  # type: ignore[attr-defined]
_fileobject = ours.SocketIO


def GreenPipe(f: Any, mode: str = "r", bufsize: int = -1) -> Any:
    """Return a file over an fd, or another file's fd, whose reads and writes do not block other greenthreads."""
    return open_(f if isinstance(f, (int, str)) else f.fileno(), mode, bufsize)


def shutdown_safe(sock: Any) -> None:
    """End both directions of a socket, if it is still connected."""
    try:
        sock.shutdown(SHUT_RDWR)
    except OSError:
        pass
