"""pyOpenSSL on dhagas: ``install()`` makes its connections park where OpenSSL would wait in C.

In an ``SSL.Connection`` over a ``dhaga.socket``, OpenSSL itself reads and writes the fd, without MSG_DONTWAIT. So the
fd is made non-blocking for each operation; on WantReadError or WantWriteError the caller parks until the fd is ready,
and repeats the operation. With a timeout on the socket, the program gets these errors, as in standard pyOpenSSL, and
waits with ``select``, which parks. Connections without a socket, or over another one, are unchanged. After a cancelled
write, a connection can only be closed. Under ``dhaga.monkey.patch`` a post-import hook installs this.
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

MAX_WRITE = 1 << 30  # bytes; SSL_write takes a C int

originals: dict[str, Callable[..., Any]] = {}
"""The methods of Connection that ``uninstall`` restores."""


def install() -> None:
    """Make all connections of the process park, existing ones included. A plain OS thread blocks as before."""
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
    """Return the socket under a connection if its operations may park: a ``dhaga.socket`` without a timeout."""
    # A connection looks up missing attributes on its socket, which has no public name.
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
            call(plain.setblocking, sock, False)  # at each try, as connect() and settimeout() reset it
            try:
                return method(self, *args, **options)
            except (WantReadError, WantWriteError) as want:
                wanted = want
            try:
                call(wait_ready, sock, isinstance(wanted, WantReadError))
            except BlockingIOError:  # SO_RCVTIMEO or SO_SNDTIMEO
                raise wanted from None

    return repeat


def sendall_by_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``sendall`` made of ``send`` calls: the standard one, repeated, would send its first bytes twice."""

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
    """Park until the fd is readable or writable. Raises: OSError (EBADF) once it is closed."""
    me = this_waiter()
    watcher: Any = sock.fd_watcher(me)
    if reads:
        watcher.readable = False
        watcher.wait_readable(me)
    else:
        watcher.wait_writable(me)


def call(function: Callable[..., object], *args: Any) -> None:
    """Call a function. Raises: SysCallError in place of EBADF, as pyOpenSSL's callers expect."""
    try:
        function(*args)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        raise SysCallError(error.errno, "EBADF") from None
