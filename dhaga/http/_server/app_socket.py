"""The client's socket in an app's environ, as ``werkzeug.socket`` and ``gunicorn.socket``.

WebSocket libraries for WSGI, such as simple-websocket, write their own answer to ``environ["werkzeug.socket"]``, and
continue on this socket. Flask-sock and Flask-SocketIO use simple-websocket. The app's result is ignored on such a
connection. So the first receive, send, ``close`` or ``settimeout`` of an AppSocket takes over the connection from the
server. Calls that only inspect the socket (``fileno``, ``getpeername``, a receive with MSG_PEEK) do not take over the
connection. An app can also take over the connection by calling ``environ["dhaga.upgrade"]``.
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
"""The status that the access log shows if the app took over the connection. The app's own status is not sent."""

TAKING = frozenset(
    {
        *("recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "sendall", "sendfile", "sendmsg", "sendto"),
        *("close", "detach", "dup", "read", "setblocking", "settimeout", "share", "shutdown", "unwrap", "write"),
    }
)
"""Socket attributes whose use takes over the connection, besides the methods of ``AppSocket``."""


def hand_over(connection: ServerConnection, response: Response) -> tuple[Any, bytes]:
    """Transfer a connection to the app, and drop the app's later result. Returns: the result of ``upgrade``. Raises:
    OSError, RuntimeError.
    """
    check_current(connection, response)
    taken = connection.upgrade(response)
    response.sink, response.status = TAKEN_SINK, SWITCHING
    return taken


def check_current(connection: ServerConnection, response: Response) -> None:
    """Raise OSError if the connection no longer answers this request."""
    if response is not connection.response:
        raise OSError(errno.EBADF, "the request of this socket's environ has ended")


def has_closed(sock: Any) -> bool:
    """Return whether a socket is closed, or its peer has closed the other end of the connection.

    Parks: never.
    """
    fd = sock.fileno()
    if fd < 0:
        return True
    poll = originals.poll()
    poll.register(fd, getattr(originals.select_module, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def end_receiving(sock: Any) -> None:
    """Shut down receiving, so that the app reads end-of-file and returns within the grace period of a stop."""
    with contextlib.suppress(OSError):  # the client has already disconnected
        plain.shutdown(sock, SHUT_RD)  # SSLSocket.shutdown would continue without encryption


class AppSocket:
    """The socket of one request's connection. ``recv`` first returns the bytes that the server received already."""

    __slots__ = ("_connection", "_io_refs", "_response", "_sock", "_unread")

    def __init__(self, connection: ServerConnection, response: Response) -> None:
        self._connection = connection
        self._response = response
        self._sock: Any = None  # set when the connection is taken over
        self._unread = b""

    def __repr__(self) -> str:
        return f"<AppSocket of {self._connection!r}, {'taken over' if self._sock is not None else 'not taken'}>"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._take() if name in TAKING else self._connection.sock, name)

    def _take(self) -> Any:
        """Return the connection's socket. The first call takes over the connection. Raises: OSError, RuntimeError."""
        if self._sock is None:
            self._sock, self._unread = hand_over(self._connection, self._response)
        return self._sock

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive up to ``size`` bytes. Parks: until data arrives (``read fd N``). Raises: OSError."""
        peek = flags & MSG_PEEK
        if peek and self._sock is None:
            check_current(self._connection, self._response)
            unread = self._connection.parser.buffer
            return unread[:size] or bytes(self._connection.sock.recv(size, flags))
        sock, data = self._take(), self._unread[:size]
        if not data:
            return bytes(sock.recv(size, flags))
        if not peek:
            self._unread = self._unread[size:]
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0, /) -> int:
        """Receive into a buffer. Parks, raises: as ``recv`` does."""
        with memoryview(buffer) as view, view.cast("B") as room:
            data = self.recv(size or len(room), flags)
            room[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send all data, as a blocking socket does. Parks: while the client does not read. Raises: OSError."""
        self._take().sendall(data, flags)
        return memoryview(data).nbytes

    def makefile(self, *arguments: Any, **options: Any) -> Any:
        """Return a file that reads and writes this socket. Source: ``socket.makefile``."""
        self._take()
        self._io_refs = 0
        make: Any = standard.socket.makefile
        return make(self, *arguments, **options)

    def _decref_socketios(self) -> None:
        """Do nothing when a file is closed, because the server closes the socket. From: ``socket.SocketIO``."""
