"""``eventlet.greenio``: sockets and pipes whose operations park instead of blocking."""

from __future__ import annotations

import errno
import os
from typing import Any

from ... import socket as ours
from ...io import open as open_
from ...socket import SHUT_RDWR

__all__ = ["GreenPipe", "GreenSocket", "shutdown_safe"]


__path__: list[str] = []  # makes this module a package for ``import``: eventlet.greenio.base is this module

CONNECT_ERR = {errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK}
CONNECT_SUCCESS = {0, errno.EISCONN}
CLIENT_GONE = errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN


# The methods below call the base class's methods by these names, because a call of super() would take as long as the
# code that each method adds.
_plain_recv, _plain_recv_into = ours.socket.recv, ours.socket.recv_into


class GreenSocket(ours.socket):
    """The socket that ``eventlet.listen`` and ``connect`` return. As in eventlet, a reset is read as end of data."""

    def __init__(self, family: Any = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        if isinstance(family, ours.standard_socket):  # a socket to convert
            timeout = family.gettimeout()
            super().__init__(family.family, family.type, family.proto, fileno=family.detach())
            if timeout:
                self.settimeout(timeout)
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
        """Receive up to ``bufsize`` bytes; b"" after the end or a reset. Parks: until data arrives."""
        try:
            return _plain_recv(self, bufsize, flags)
        except OSError as error:
            if error.errno not in CLIENT_GONE:
                raise
            return b""

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Receive into a buffer. Returns: the number of bytes; 0 after the end or a reset. Parks: until data comes."""
        try:
            return _plain_recv_into(self, buffer, nbytes, flags)
        except OSError as error:
            if error.errno not in CLIENT_GONE:
                raise
            return 0


def wrapped(sock: ours.socket) -> ours.socket:
    """Return the socket itself. In eventlet, the result is the socket that a GreenSocket wraps."""
    return sock


# All sockets get these attributes, because sockets of patched programs are not GreenSockets here. Swift's proxy closes
# the socket in ``fd``.
ours.socket.fd = ours.socket._sock = property(wrapped)  # type: ignore[attr-defined]
_fileobject = ours.SocketIO


def GreenPipe(name: Any, mode: str = "r", buffering: int = -1, **options: Any) -> Any:
    """Return a file over an fd, a path or another file. The other file is closed.

    The returned file's reads and writes do not block other greenthreads.
    """
    if hasattr(name, "fileno"):
        fd = os.dup(name.fileno())  # a shared fd would be closed with the given file, or twice
        name.close()
        name = fd
    return open_(name, mode, buffering, **options)


def shutdown_safe(sock: Any) -> None:
    """Shut down both directions of a socket if it is still connected."""
    try:
        sock.shutdown(SHUT_RDWR)
    except OSError:
        pass
