"""A WSGI server (PEP 3333) for HTTP/1.1. Each connection has a dhaga, in which the server calls the app.

Flask and Django apps run unchanged: while the app parks in one request, other connections continue. A slow or silent
client occupies one parked dhaga until a time limit of ``limits.Limits`` ends its connection. ``python -m dhaga serve``
runs this server in several processes and handles signals.
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
from ._server.request_environ import REQUEST_KEYS, server_environ
from ._server.response import ServerFields
from .limits import Limits, Refusal

logger: logging.Logger = logging.getLogger("dhaga")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SOFTWARE = "dhaga"


class Server(TCPServer):
    """A server of a WSGI app over HTTP/1.1. ``options`` are passed to ``TCPServer``.

    ``limits``: limits of sizes and times.
    ``access_log``: True (the logger ``dhaga.access``), a logger, a text file, or a function that takes a line.
    ``concurrency``: maximum number of requests that the app handles at once. Further requests wait in order of arrival.
    ``multiprocess``: the value of ``wsgi.multiprocess``.

    The environ contains two functions besides the keys of PEP 3333. ``dhaga.upgrade()`` takes over the connection, and
    returns the socket and the bytes already received. WebSocket libraries use the environ's ``werkzeug.socket`` or
    ``gunicorn.socket`` instead. ``dhaga.disconnected()`` returns whether the client has disconnected. A long poll
    should call this function at intervals, because an app otherwise notices a disconnect only when it reads or writes.
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
        """Serve one HTTP connection until it ends."""
        if sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)  # Nagle's algorithm would delay small writes until an ACK
        ServerConnection(self, sock, peer, self.base_environ(sock)).serve_requests()

    def base_environ(self, sock: socket) -> dict[str, Any]:
        """Return the part of the environ that all requests to the socket's local address have in common."""
        address = sock.getsockname()
        environ = self.base_environs.get(address)
        if environ is None:
            environ = self.base_environs[address] = self.new_base_environ(address)
        return environ

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        more = {"wsgi.multiprocess": self.multiprocess, "wsgi.file_wrapper": FileWrapper}
        common = server_environ(SOFTWARE, address, self.ssl_context is not None, sys.stderr, **more)
        return dict.fromkeys(REQUEST_KEYS) | common

    def release(self, connection: Connection) -> None:
        """End an idle connection soon. A busy connection ends with its current response."""
        http_connection = self.http_connections.get(connection)
        if http_connection is not None:
            http_connection.stop_when_idle()

    def answers_error(self, error: BaseException) -> bool:
        """Return whether the server answers an error of the app with status 500, instead of passing it on."""
        return isinstance(error, Exception)

    def report_failure(self, environ: dict[str, Any], error: BaseException) -> bool:
        """Log an error of the app. From: the request's dhaga, inside the ``except`` block of the error.

        Returns: whether the server closes the connection without an answer.
        """
        logger.error("the app failed at %s %s", environ["REQUEST_METHOD"], environ["REQUEST_URI"], exc_info=error)
        return False

    def report_exit(self, environ: dict[str, Any], error: BaseException) -> None:
        """Log a SystemExit of the app, because it ends the process."""
        if isinstance(error, SystemExit):
            where = environ["REQUEST_METHOD"], environ["REQUEST_URI"]
            logger.error("the app ends this process by sys.exit() at %s %s", *where, exc_info=error)

    def refusal_text(self, refusal: Refusal) -> str:
        """Return the body of the answer to a refused request."""
        return f"{refusal.status}\n"
