"""Files for the connections of ``eventlet.wsgi``: a reader and a writer for any kind of socket."""

from __future__ import annotations

import io
from typing import Any

from ...socket import standard_socket


def is_wrapped(sock: Any, method: str) -> bool:
    """Return whether the program may have replaced a method: on this socket, or in a socket class of its own."""
    return not isinstance(sock, standard_socket) or method in getattr(sock, "__dict__", ())


class ConnectionReader(io.RawIOBase):
    """File that reads from a connection until stopped. A BufferedReader around it then still returns buffered bytes."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock
        self.stopped = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> Any:
        return None if self.stopped else self.sock.recv_into(buffer)


class ConnectionWriter(io.RawIOBase):
    """File that writes to a connection without buffering."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.sock.sendall(data)
        return len(data)
