"""The client's socket in an app's environ, under the names of werkzeug and gunicorn.

WebSocket libraries for WSGI write their own answer to ``environ["werkzeug.socket"]`` and continue on that socket; the
app's result is ignored. These are simple-websocket, and flask-sock and Flask-SocketIO, which use it. So the first
receive, send, ``close`` or ``settimeout`` on this object takes over the connection. Inspecting it (``fileno``,
``getpeername``, a receive with MSG_PEEK) does not. ``environ["dhaga.upgrade"]`` takes over explicitly.
"""

from __future__ import annotations

import contextlib
import errno
import socket as standard
from typing import TYPE_CHECKING, Any

from ..._iowait.socket_base import plain
from ..._kernel import originals
from ...socket import MSG_PEEK, SHUT_RD
from .response import TAKEN_SINK, Response

if TYPE_CHECKING:
    from .connection import ServerConnection

SWITCHING = "101 Switching Protocols"
"""The status in the access log, because the app's own later status is not sent."""

TAKING = frozenset(
    {
        *("recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "sendall", "sendfile", "sendmsg", "sendto"),
        *("close", "detach", "dup", "read", "setblocking", "settimeout", "share", "shutdown", "unwrap", "write"),
    }
)
"""Attributes of a socket whose use takes over the connection, besides the methods below."""


def hand_over(connection: ServerConnection, response: Response) -> tuple[Any, bytes]:
    """Transfer a connection to an app that may still return an answer. Returns: as ``upgrade``. Raises: OSError."""
    if response is not connection.response:
        raise OSError(errno.EBADF, "the request of this socket's environ has ended")
    taken = connection.upgrade()
    response.sink, response.status = TAKEN_SINK, SWITCHING
    connection.handed_over = True
    if connection.server.stopping:
        end_receiving(connection.sock)
    return taken


def has_closed(sock: Any) -> bool:
    """Return whether the peer of a socket has closed its side. Parks: never."""
    poll = originals.poll()
    poll.register(sock.fileno(), getattr(originals.select_module, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def end_receiving(sock: Any) -> None:
    """Make the app read end-of-file after the received data, so that it ends by itself within the grace of a stop."""
    with contextlib.suppress(OSError):  # already disconnected
        plain.shutdown(sock, SHUT_RD)  # plain, on the fd: SSLSocket.shutdown would go on unencrypted


class AppSocket:
    """The socket of one request's connection. It first receives the bytes that came with the request."""

    __slots__ = ("_connection", "_io_refs", "_response", "_sock", "_unread")

    def __init__(self, connection: ServerConnection, response: Response) -> None:
        self._connection = connection
        self._response = response
        self._sock: Any = None  # set once taken over
        self._unread = b""

    def __repr__(self) -> str:
        return f"<AppSocket of {self._connection!r}, {'taken over' if self._sock is not None else 'not taken'}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._take() if name in TAKING else self._connection.sock, name)

    def _take(self) -> Any:
        """Return the socket; the first call takes over the connection. Raises: OSError, RuntimeError."""
        if self._sock is None:
            self._sock, self._unread = hand_over(self._connection, self._response)
        return self._sock

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive up to ``size`` bytes. Parks: while no data is there (``read fd N``). Raises: OSError."""
        peek = flags & MSG_PEEK
        if peek and self._sock is None:
            unread = self._connection.parser.buffer
            return unread[:size] or bytes(self._connection.sock.recv(size, flags))
        sock, data = self._take(), self._unread[:size]
        if not data:
            return bytes(sock.recv(size, flags))
        if not peek:
            self._unread = self._unread[size:]
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        """Receive into a buffer. Parks, raises: as ``recv``."""
        with memoryview(buffer) as view, view.cast("B") as room:
            data = self.recv(size or len(room), flags)
            room[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send everything, as a blocking socket does. Parks: while the client does not read. Raises: OSError."""
        self._take().sendall(data, flags)
        return memoryview(data).nbytes

    def makefile(self, *arguments: Any, **options: Any) -> Any:
        """Return a file over this socket. Source: ``socket.makefile``."""
        self._take()
        self._io_refs = 0
        make: Any = standard.socket.makefile
        return make(self, *arguments, **options)

    def _decref_socketios(self) -> None:
        """Do nothing at the end of a file: the server closes the socket. From: ``socket.SocketIO``."""
