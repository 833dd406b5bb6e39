"""``gevent.server``: StreamServer for TCP connections, with or without TLS, and DatagramServer for datagrams."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ... import socket as ours
from ... import ssl as tls
from .._shared.tls import new_context
from .baseserver import BaseServer

__all__ = ["DatagramServer", "StreamServer"]

logger: logging.Logger = logging.getLogger("dhaga")

WRAP_OPTIONS = "ssl_version", "keyfile", "certfile", "ca_certs", "cert_reqs", "ciphers"
"""Arguments of ``ssl.wrap_socket`` that a server accepts."""


def bound_socket(kind: int, address: Any, family: Any, reuse_addr: Any) -> ours.socket:
    """Return a new socket that is bound to an address. Raises: OSError."""
    sock = ours.socket(ours.AF_INET if family is None else family, kind)
    try:
        if reuse_addr and family != ours.AF_UNIX:
            sock.setsockopt(ours.SOL_SOCKET, ours.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        error.strerror = f"{error.strerror}: {address!r}"
        raise
    return sock


class StreamServer(BaseServer):
    """A server that calls ``handle(socket, address)`` in a greenlet per connection. Source: ``gevent.server``.

    ``ssl_args``: ``ssl_context``, or the arguments of a new context: ``ssl_version``, ``keyfile``, ``certfile``,
    ``ca_certs``, ``cert_reqs``, ``ciphers``. The socket is closed when the handler ends.
    """

    backlog: int = 256
    reuse_addr = 1

    def __init__(
        self,
        listener: Any,
        handle: Callable[..., Any] | None = None,
        backlog: int | None = None,
        spawn: Any = "default",
        **ssl_args: Any,
    ) -> None:
        self.ssl_context: Any | None = context_of(ssl_args) if ssl_args else None
        if backlog is not None:
            if hasattr(listener, "accept"):
                raise TypeError("backlog must be None when a socket instance is passed")
            self.backlog = backlog
        super().__init__(listener, handle, spawn)

    @property
    def ssl_enabled(self) -> bool:
        """Whether the server's connections use TLS."""
        return self.ssl_context is not None

    @classmethod
    def get_listener(cls, address: Any, backlog: int | None = None, family: Any = None) -> Any:
        """Return a new socket that listens at an address."""
        sock = bound_socket(ours.SOCK_STREAM, address, family, cls.reuse_addr)
        sock.listen(cls.backlog if backlog is None else backlog)
        return sock

    def init_socket(self) -> None:
        if not hasattr(self, "socket"):
            if not self.closes:
                raise RuntimeError(f"{self!r} was given a socket, which is closed: make another server")
            self.socket: Any = self.get_listener(self.address, self.backlog, self.family)
            self.address: Any = self.socket.getsockname()

    def do_read(self) -> tuple[Any, ...]:
        # The caller is a loop that yields after ``max_accept`` connections.
        return ours.accept_in_burst(self.socket)

    def do_close(self, sock: Any, *args: Any) -> None:
        sock.close()

    def _handle(self, *args: Any) -> None:
        if self.ssl_context is None:
            super()._handle(*args)
        else:
            self.wrap_socket_and_handle(*args)

    def wrap_socket_and_handle(self, client_socket: Any, address: Any) -> None:
        """Do the TLS handshake with a client and handle the connection. Parks: during both."""
        try:
            sock = self.wrap_socket(client_socket, server_side=True)
        except OSError as error:
            logger.info("%r: no TLS with %s: %s", self, address, error)
            client_socket.close()
            return
        super()._handle(sock, address)

    def wrap_socket(self, sock: Any, **options: Any) -> Any:
        """Return a TLS socket over a connected socket. Parks: until the handshake is complete."""
        context: Any = self.ssl_context
        return context.wrap_socket(sock, **options)


def context_of(ssl_args: dict[str, Any]) -> Any:
    """Return the given context, or a new one from the ``WRAP_OPTIONS``. Raises: TypeError for other arguments."""
    options = dict(ssl_args)
    context: Any = options.pop("ssl_context", None)
    options.pop("server_side", None)
    known = {} if context is not None else {name: options.pop(name) for name in WRAP_OPTIONS if name in options}
    if options:
        raise TypeError(f"{', '.join(options)}: set it on an ssl.SSLContext, and pass that as ssl_context")
    if context is None:
        return new_context(known.pop("ssl_version", tls.PROTOCOL_TLS_SERVER), **known)
    if not issubclass(context.sslsocket_class, tls.SSLSocket):
        context.sslsocket_class = tls.SSLSocket
    return context


class DatagramServer(BaseServer):
    """A server that calls ``handle(data, address)`` in a greenlet per datagram. Source: ``gevent.server``."""

    reuse_addr = 1

    def __init__(self, listener: Any, handle: Callable[..., Any] | None = None, spawn: Any = "default") -> None:
        super().__init__(listener, handle, spawn)

    @classmethod
    def get_listener(cls, address: Any, family: Any = None) -> Any:
        """Return a new datagram socket that is bound to an address."""
        return bound_socket(ours.SOCK_DGRAM, address, family, cls.reuse_addr)

    def init_socket(self) -> None:
        if not hasattr(self, "socket"):
            self.socket: Any = self.get_listener(self.address, self.family)
            self.address: Any = self.socket.getsockname()

    def do_read(self) -> tuple[Any, ...]:
        data, address = self.socket.recvfrom(8192)
        return data, address

    def sendto(self, *args: Any) -> int:
        """Send a datagram from the server's socket. Parks: while the kernel's send buffer is full."""
        return self.socket.sendto(*args)  # type: ignore[no-any-return]
