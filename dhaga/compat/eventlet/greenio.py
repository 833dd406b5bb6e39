"""``eventlet.greenio``: sockets and pipes whose waits park."""

from __future__ import annotations

from typing import Any

from ...io import open as open_
from ...socket import SHUT_RDWR
from ...socket import socket as GreenSocket

__all__ = ["GreenPipe", "GreenSocket", "shutdown_safe"]


def GreenPipe(f: Any, mode: str = "r", bufsize: int = -1) -> Any:
    """Return a file whose reads and writes do not hold up other greenthreads: of an fd, or of another file's fd."""
    return open_(f if isinstance(f, (int, str)) else f.fileno(), mode, bufsize)


def shutdown_safe(sock: Any) -> None:
    """End both directions of a socket, if it is still connected."""
    try:
        sock.shutdown(SHUT_RDWR)
    except OSError:
        pass
