"""pyOpenSSL on dhagas: ``install()`` makes its connections park where OpenSSL would wait in C.

In an ``SSL.Connection`` over a ``dhaga.socket``, OpenSSL itself reads and writes the fd, without MSG_DONTWAIT. So each
operation makes the fd non-blocking. After WantReadError or WantWriteError, the operation parks until the fd is ready,
and tries again. If the socket has a timeout, the program gets these errors, as in standard pyOpenSSL, and waits with
``select``, which parks. Connections without a socket, or over another kind of socket, are unchanged. After a cancelled
write, a connection can only be closed. In a patched program, a post-import hook calls ``install()``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from typing import Any

from OpenSSL.SSL import Connection, SysCallError, WantReadError, WantWriteError

from .._iowait.socket_base import plain
from .._kernel.wait.current import this_waiter
from ..socket import socket

__all__ = ["install", "uninstall"]

MAX_WRITE = 1 << 30  # in bytes; the length that SSL_write takes is a C int

originals: dict[str, Callable[..., Any]] = {}
"""The methods of Connection that ``uninstall`` restores."""


def install() -> None:
    """Make calls on all connections park, including existing connections. Plain OS threads block as before."""
    if originals:
        return
    for name in ("do_handshake", "read", "recv", "recv_into", "renegotiate", "send", "shutdown", "write"):
        replace(name, parking(getattr(Connection, name)))
    replace("sendall", sendall_by_parts(Connection.sendall))


def replace(name: str, method: Callable[..., Any]) -> None:
    originals[name] = getattr(Connection, name)
    setattr(Connection, name, method)


def uninstall() -> None:
    """Restore the previous methods."""
    while originals:
        setattr(Connection, *originals.popitem())


def socket_that_parks(connection: Any) -> socket | None:
    """Return a connection's socket if it is a ``dhaga.socket`` without a timeout. Only operations on such a socket may
    park.
    """
    # The socket has no public name, but a connection looks up missing attributes on its socket.
    sock = getattr(getattr(connection, "gettimeout", None), "__self__", None)
    return sock if isinstance(sock, socket) and sock.call_timeout_ is None else None


def parking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that parks where it would block (``read fd N``, ``write fd N``)."""

    @wraps(method)
    def repeat(self: Any, *args: Any, **options: Any) -> Any:
        sock = socket_that_parks(self)
        if sock is None:
            return method(self, *args, **options)
        while True:
            call(plain.setblocking, sock, False)  # at each try, because connect() and settimeout() reset the mode
            try:
                return method(self, *args, **options)
            except (WantReadError, WantWriteError) as want:
                wanted = want
            try:
                call(wait_ready, sock, isinstance(wanted, WantReadError))
            except BlockingIOError:  # SO_RCVTIMEO or SO_SNDTIMEO has expired
                raise wanted from None

    return repeat


def sendall_by_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``sendall`` that calls ``send`` repeatedly. Repeating the standard method would send bytes twice."""

    @wraps(method)
    def sendall(self: Any, buf: Any, flags: int = 0) -> Any:
        if socket_that_parks(self) is None:
            return method(self, buf, flags)
        sent = 0
        with memoryview(buf.encode() if isinstance(buf, str) else buf) as view, view.cast("B") as octets:
            while sent < len(octets):
                with octets[sent : sent + MAX_WRITE] as rest:
                    sent += self.send(rest)
        return sent

    return sendall


def wait_ready(sock: socket, reads: bool) -> None:
    """Park until the fd is readable, or writable if ``reads`` is false. Raises: OSError (EBADF) if the fd is closed."""
    me = this_waiter()
    watcher: Any = sock.fd_watcher(me)
    if reads:
        watcher.readable = False
        watcher.wait_readable(me)
    else:
        watcher.wait_writable(me)


def call(function: Callable[..., object], *args: Any) -> None:
    """Call a function. Raises: SysCallError instead of OSError (EBADF), as pyOpenSSL's callers expect."""
    try:
        function(*args)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        raise SysCallError(error.errno, "EBADF") from None
