"""``eventlet.convenience``: functions that listen, connect, and call a handler for each connection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ... import socket, ssl
from ..._kernel.api import current
from ...socket import AF_INET, AF_INET6, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET
from .._shared.tls import new_context
from . import _settings
from .greenio import GreenSocket
from .greenpool import GreenPool
from .greenthread import GreenThread, was_killed

try:
    from ...socket import SO_REUSEPORT
except ImportError:  # Windows
    SO_REUSEPORT = 0

__all__ = ["StopServe", "connect", "listen", "serve", "wrap_ssl"]


class ReuseRandomPortWarning(Warning):
    """Warning about a random port that other sockets may share."""


class ReusePortUnavailableWarning(Warning):
    """Warning about a system without SO_REUSEPORT."""


class StopServe(Exception):
    """Raised by a handler to end ``serve`` without an error."""


_settings.unreported = (StopServe,)


def new_socket(family: int) -> GreenSocket:
    """Return a new GreenSocket. If a test has replaced ``eventlet.green.socket.socket``, use the replacement."""
    kind: Any = socket.socket
    return (GreenSocket if kind is GreenSocket.__base__ else kind)(family, SOCK_STREAM)


def connect(addr: Any, family: int = AF_INET, bind: Any = None) -> GreenSocket:
    """Return a connected socket. ``bind``: the local address. Parks: until it is connected. Raises: OSError."""
    sock = new_socket(family)
    try:
        if bind is not None:
            sock.bind(bind)
        sock.connect(addr)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(
    addr: Any, family: int = AF_INET, backlog: int = 50, reuse_addr: bool = True, reuse_port: bool | None = None
) -> GreenSocket:
    """Return a listening socket.

    ``reuse_port``: whether other sockets may share the port; with None, they may unless the port is 0. Parks: never.
    Raises: OSError.
    """
    sock = new_socket(family)
    try:
        if reuse_addr:
            sock.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        if family in (AF_INET, AF_INET6) and addr[1] == 0:
            if reuse_port:
                warnings.warn("port 0 with reuse_port: others may also get the port", ReuseRandomPortWarning, 2)
        elif reuse_port is None:
            reuse_port = family in (AF_INET, AF_INET6)
        if reuse_port and SO_REUSEPORT:
            try:
                sock.setsockopt(SOL_SOCKET, SO_REUSEPORT, 1)
            except OSError:
                warnings.warn("SO_REUSEPORT is defined, but not supported", ReusePortUnavailableWarning, 2)
        sock.bind(addr)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def serve(sock: Any, handle: Callable[[Any, Any], Any], concurrency: int = 1000) -> None:
    """Call ``handle(socket, address)`` for each connection in a greenthread, and then close the connection.

    Parks: until a handler fails. Its error is then raised here; after StopServe, ``serve`` returns.
    """
    pool = GreenPool(concurrency)
    server = current()
    try:
        while True:
            conn, addr = sock.accept()
            pool.spawn(handle, conn, addr).link(check_handler, server, conn)
            del conn, addr
    except StopServe:
        return


def check_handler(greenthread: GreenThread, server: Any, conn: Any) -> None:
    """Close the connection of a handler that has ended, and raise the handler's error in the server."""
    try:
        try:
            greenthread.wait()
        finally:
            conn.close()
    except BaseException as error:
        if not was_killed(error):
            server.cancel_with(error)


def wrap_ssl(
    sock: Any,
    keyfile: Any = None,
    certfile: Any = None,
    server_side: bool = False,
    cert_reqs: Any = ssl.CERT_NONE,
    ssl_version: Any = None,
    ca_certs: Any = None,
    do_handshake_on_connect: bool = True,
    suppress_ragged_eofs: bool = True,
    ciphers: str | None = None,
) -> Any:
    """Wrap a connection or a listener in TLS. Certificates are checked only if ``cert_reqs`` requires it.

    Source: ``ssl.wrap_socket``. Parks: during the handshake of a connection. Raises: OSError.
    """
    protocol = ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT
    protocol = protocol if ssl_version is None else ssl_version
    return new_context(protocol, keyfile, certfile, cert_reqs, ca_certs, ciphers).wrap_socket(
        sock,
        server_side=server_side,
        do_handshake_on_connect=do_handshake_on_connect,
        suppress_ragged_eofs=suppress_ragged_eofs,
    )
