"""``gevent.pywsgi``: WSGIServer, a WSGI server that uses ``dhaga.http.wsgi``."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from typing import Any

from ..._kernel.errors import Cancelled
from ...http._server.request_environ import server_environ
from ...http._server.response import NotStarted
from ...http.limits import Limits, Refusal
from ...http.wsgi import Server
from ._wsgi_environ import Environ, LoggingLogAdapter, NoLog, SecureEnviron
from ._wsgi_handler import WSGIHandler
from ._wsgi_input import MAX_REQUEST_LINE, Input
from .hub import get_hub
from .server import StreamServer

__all__ = ["MAX_REQUEST_LINE", "Environ", "Input", "LoggingLogAdapter", "SecureEnviron", "WSGIHandler", "WSGIServer"]

_NoopLog = NoLog

CONNECTION_FIELDS = "connection", "keep-alive", "transfer-encoding"
"""Fields that an application may set, but that the server replaces, because they concern only the connection."""

SOFTWARE = "gevent/26.0 Python/dhaga"


class Answering(Server):
    """The server that answers requests on the connections of a WSGIServer."""

    def __init__(self, server: WSGIServer) -> None:
        log = None if isinstance(server.log, NoLog) else server.log
        super().__init__(self.call, access_log=log, limits=Limits(), ssl_context=server.ssl_context)
        self.owner = server

    def call(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the server's current application, which the program may replace at any time."""

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            """Set status and headers. As in gevent, the application may say that the connection closes."""
            own = [value for name, value in headers if name.lower() in CONNECTION_FIELDS]
            if not own:
                return start_response(status, headers, exc_info)
            rest = [field for field in headers if field[0].lower() not in CONNECTION_FIELDS]
            write = start_response(status, rest, exc_info)
            response = start_response.__self__
            if "close" in map(str.lower, own) and not response.sent:
                response.sink.close_after_response()
            return write

        return self.owner.application(environ, start)

    def answers_error(self, error: BaseException) -> bool:
        """Return True, even for a Timeout, a kill or an exit; False only for a cancel."""
        return not isinstance(error, Cancelled)

    def report_failure(self, environ: dict[str, Any], error: BaseException) -> bool:
        """Pass an application's error to the hub, but only log a missing call of ``start_response``.

        Returns: whether the connection closes without an answer: True if the call is missing, because the application
        may have answered on the socket itself.
        """
        if isinstance(error, NotStarted):
            self.owner.error_log.write("the application did not call start_response(): the connection closes\n")
            return True
        shown = self.owner.secure_environ_class(environ)
        get_hub().handle_error(shown, type(error), error, error.__traceback__)
        return False

    def refusal_text(self, refusal: Refusal) -> str:
        """Return the body of gevent's response to a refused request."""
        return refusal.status[4:]

    def base_environ(self, sock: Any) -> dict[str, Any]:
        return super().base_environ(sock) | self.owner.environ  # the program may change the server's environ

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        more = {"SERVER_SOFTWARE": SOFTWARE, "GATEWAY_INTERFACE": "CGI/1.1", "wsgi.multithread": False}
        more["wsgi.errors"] = self.owner.error_log
        return super().new_base_environ(address) | more

    def stop_idle(self) -> None:
        """Close idle connections, and from now on close each connection after its response."""
        self.stopping = True
        for connection in list(self.http_connections.values()):
            connection.stop_when_idle()


class WSGIServer(StreamServer):
    """A server of a WSGI application. Source: ``gevent.pywsgi.WSGIServer``.

    ``log``: a file or a logger; "default" is stderr, None disables it. ``environ``: additional values for each
    request's environ. ``spawn``: as in StreamServer; a connection keeps its greenlet until the connection closes.
    ``handler_class``: with WSGIHandler, ``dhaga.http.wsgi`` answers, and the log has the combined format; with a
    subclass, the subclass's Python methods answer and write the log.
    """

    handler_class: Any = WSGIHandler
    environ_class: Any = dict
    secure_environ_class: Any = SecureEnviron
    """Class of a request's environ in error reports."""
    base_env: dict[str, Any] = {}  # noqa: RUF012  (subclasses give theirs)

    def __init__(
        self,
        listener: Any,
        application: Callable[..., Any] | None = None,
        backlog: int | None = None,
        spawn: Any = "default",
        log: Any = "default",
        error_log: Any = "default",
        handler_class: Any = None,
        environ: dict[str, Any] | None = None,
        **ssl_args: Any,
    ) -> None:
        if handler_class is not None:
            self.handler_class = handler_class
        self.application: Any = application if application is not None else getattr(self, "application", None)
        self.base_env = {**type(self).base_env, **(environ or {})}
        self.log: Any = as_log(log)
        self.error_log: Any = as_log(error_log, logging.ERROR)
        super().__init__(listener, self.handle, backlog, spawn, **ssl_args)
        self.set_environ(None)

    def set_environ(self, environ: dict[str, Any] | None = None) -> None:
        """Set additional values for the environ of each request."""
        self.base_env.update(environ or {})
        self.environ: dict[str, Any] = self.base_env
        self.answering: Answering = Answering(self)
        self.set_max_accept()

    def set_max_accept(self) -> None:
        """Accept one connection at a time if several processes accept from the listener."""
        if self.base_env.get("wsgi.multiprocess"):
            self.max_accept = 1

    def get_environ(self) -> Any:
        """Return a request's environ, without the values that a WSGIHandler adds."""
        secure = self.ssl_context is not None
        address = self.server_host or socket.gethostname(), self.server_port or ""
        more = {"wsgi.multithread": False}
        environ = self.environ_class(server_environ(SOFTWARE, address, secure, self.error_log, **more))
        if secure:
            environ["HTTPS"] = "on"
        environ.update(self.environ)
        return environ

    def pre_start(self) -> None:
        super().pre_start()
        if self.answering.stopping:
            self.set_environ(None)
        self.update_environ()

    def update_environ(self) -> None:
        """Hook for subclasses, called once the address is known."""

    def handle(self, sock: Any, address: Any) -> None:
        """Answer the requests of a connection. Parks: until the connection closes."""
        if self.handler_class is WSGIHandler and self.environ_class is dict:
            self.answering.serve(sock, address)
        else:
            self.handler_class(sock, address, self).handle()

    def close(self) -> None:
        self.answering.stop_idle()
        super().close()


def as_log(log: Any, level: int = logging.INFO) -> Any:
    """Return the file-like object to which a server writes log lines."""
    if log is None:
        return NoLog()
    if log == "default":
        return sys.stderr
    if hasattr(log, "log") and not hasattr(log, "write"):
        return LoggingLogAdapter(log, level)
    return log
