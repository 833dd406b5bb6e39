"""The files of a connection of ``eventlet.wsgi``: its receiving and its sending side, over any socket."""

from __future__ import annotations

import io
from typing import Any

from ...socket import standard_socket


def is_wrapped(sock: Any, method: str) -> bool:
    """Return whether the method is one of the program: it was set on the socket, or the object is no socket."""
    return not isinstance(sock, standard_socket) or method in getattr(sock, "__dict__", ())


class ConnectionReader(io.RawIOBase):
    """The receiving side of a connection; once stopped, it returns received bytes only, and never waits."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock
        self.stopped = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> Any:
        return None if self.stopped else self.sock.recv_into(buffer)


class ConnectionWriter(io.RawIOBase):
    """The sending side of a connection, without a buffer."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.sock.sendall(data)
        return len(data)
