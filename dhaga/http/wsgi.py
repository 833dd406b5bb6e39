"""Server: a WSGI server (PEP 3333) for HTTP/1.1 that calls the app in the dhaga of each connection.

Flask and Django apps run unchanged; their calls of Dhaga park, and other connections go on. A slow or silent client
costs one parked dhaga until a time limit (``limits.Limits``). Processes and signals: ``python -m dhaga serve``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..servers import Connection, TCPServer
from ..servers._asgi import is_asgi, refusal
from ..servers._listeners import Address
from ..socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, socket
from ._server.access_log import AccessLog
from ._server.connection import ServerConnection
from ._server.file_wrapper import FileWrapper
from ._server.response import ServerFields
from .limits import Limits

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SOFTWARE = "dhaga"


class Server(TCPServer):
    """Serve a WSGI app over HTTP/1.1. ``options`` are those of ``TCPServer``.

    ``limits``: sizes and times, see ``limits.Limits``; ``access_log``: True (the logger ``dhaga.access``), a logger, a
    text file or a function that takes a line; ``multiprocess``: the app is told that other processes serve it, too.
    Environ, besides PEP 3333: ``dhaga.upgrade()`` takes the connection over and returns its socket and the bytes
    already received; WebSocket libraries do so by ``werkzeug.socket`` or ``gunicorn.socket``. ``dhaga.disconnected()``
    reports whether the client has left: an app sees that only when it reads or writes, so a long poll waits in slices
    and checks between them.
    """

    def __init__(
        self,
        app: App,
        address: Address = ("127.0.0.1", 0),
        *,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        access_log: Any = None,
        multiprocess: bool = False,
        name: str = "http",
        **options: Any,
    ) -> None:
        if not callable(app):
            raise TypeError(f"a WSGI app is called with environ and start_response; {app!r} cannot be called")
        if is_asgi(app):
            raise TypeError(refusal(repr(app)))
        super().__init__(self.serve, address, name=name, **options)
        self.app = app
        self.limits = limits
        self.access_log: AccessLog | None = AccessLog(access_log) if access_log else None
        self.multiprocess = multiprocess
        self.server_fields: ServerFields = ServerFields(SOFTWARE)
        self.base_environs: dict[Any, dict[str, Any]] = {}
        self.http_connections: dict[Any, ServerConnection] = {}

    def serve(self, sock: socket, peer: Any) -> None:
        """Serve the HTTP connection of one socket to its end."""
        if sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # a small write must not wait for an ACK (Nagle)
        connection = ServerConnection(self, sock, peer)
        self.http_connections[connection.me] = connection
        try:
            connection.serve_requests()
        finally:
            del self.http_connections[connection.me]

    def release(self, connection: Connection) -> None:
        """End an idle connection soon; a busy one ends with its current response."""
        http_connection = self.http_connections.get(connection)
        if http_connection is not None:
            http_connection.stop_when_idle()

    def base_environ(self, sock: socket) -> dict[str, Any]:
        """Return the part of the environ that all requests at the socket's local address share."""
        address = sock.getsockname()
        environ = self.base_environs.get(address)
        if environ is None:
            environ = self.base_environs[address] = self.new_base_environ(address)
        return environ

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        scheme = "http" if self.ssl_context is None else "https"
        host, port = address[:2] if isinstance(address, tuple) else ("localhost", 443 if self.ssl_context else 80)
        return {
            "SCRIPT_NAME": "",
            "SERVER_NAME": host,
            "SERVER_PORT": str(port),
            "SERVER_SOFTWARE": SOFTWARE,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": self.multiprocess,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
            "wsgi.file_wrapper": FileWrapper,
        }
