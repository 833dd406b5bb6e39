"""Server: a WSGI server (PEP 3333) for HTTP/1.1 that calls the app in the dhaga of each connection.

Flask and Django apps run unchanged; their calls of Dhaga park, and other connections continue. A slow or silent client
costs one parked dhaga until a time limit (``limits.Limits``). Processes and signals: ``python -m dhaga serve``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from .._kernel.run.call_outs import calls_out
from .._kernel.run.preemption import let_deadlines_strike
from .._sync.semaphore import Semaphore
from ..servers import Connection, TCPServer
from ..servers._asgi import is_asgi, refusal
from ..servers._listeners import Address
from ..socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, socket
from ._server.access_log import AccessLog
from ._server.connection import ServerConnection
from ._server.file_wrapper import FileWrapper
from ._server.request_environ import server_environ
from ._server.response import ServerFields
from .limits import Limits, Refusal

logger: logging.Logger = logging.getLogger("dhaga")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SOFTWARE = "dhaga"


class Server(TCPServer):
    """Serves a WSGI app over HTTP/1.1. ``options`` are those of ``TCPServer``.

    ``limits``: sizes and times, see ``limits.Limits``; ``access_log``: True (the logger ``dhaga.access``), a logger, a
    text file or a function that takes a line; ``concurrency``: requests that the app handles at once (None: all), while
    others wait in order of arrival; ``multiprocess``: the value of ``wsgi.multiprocess``.
    Environ, besides PEP 3333: ``dhaga.upgrade()`` takes over the connection and returns its socket and the bytes
    already received; WebSocket libraries use ``werkzeug.socket`` or ``gunicorn.socket`` for that.
    ``dhaga.disconnected()`` reports whether the client has disconnected. An app otherwise notices this only when it
    reads or writes: a long poll should wait in slices, and check between them.
    """

    def __init__(
        self,
        app: App,
        address: Address = ("127.0.0.1", 0),
        *,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        access_log: Any = None,
        concurrency: int | None = None,
        multiprocess: bool = False,
        name: str = "http",
        **options: Any,
    ) -> None:
        if not callable(app):
            raise TypeError(f"a WSGI app is called with environ and start_response, but {app!r} is not callable")
        if is_asgi(app):
            raise TypeError(refusal(repr(app)))
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency must be one or more, or None for no limit, not {concurrency!r}")
        super().__init__(self.serve, address, name=name, **options)
        self.turns: Semaphore | None = None if concurrency is None else Semaphore(concurrency)
        self.app = app
        self.limits = limits
        if limits.request_timeout is not None:
            let_deadlines_strike()
        self.access_log: AccessLog | None = AccessLog(access_log) if access_log else None
        self.multiprocess = multiprocess
        self.server_fields: ServerFields = ServerFields(SOFTWARE)
        self.base_environs: dict[Any, dict[str, Any]] = {}
        self.http_connections: dict[Any, ServerConnection] = {}

    @calls_out
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

    def report_failure(self, environ: dict[str, Any], error: Exception) -> bool:
        """Log an error of the app. From: the request's dhaga, while the error is handled.

        Returns: whether the connection closes without an answer.
        """
        logger.error("the app failed at %s %s", environ["REQUEST_METHOD"], environ["REQUEST_URI"], exc_info=error)
        return False

    def refusal_text(self, refusal: Refusal) -> str:
        """Return the body of the answer to a refused request."""
        return f"{refusal.status}\n"

    def base_environ(self, sock: socket) -> dict[str, Any]:
        """Return the part of the environ that is the same for all requests at the socket's local address."""
        address = sock.getsockname()
        environ = self.base_environs.get(address)
        if environ is None:
            environ = self.base_environs[address] = self.new_base_environ(address)
        return environ

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        more = {"wsgi.multiprocess": self.multiprocess, "wsgi.file_wrapper": FileWrapper}
        return server_environ(SOFTWARE, address, self.ssl_context is not None, sys.stderr, **more)
