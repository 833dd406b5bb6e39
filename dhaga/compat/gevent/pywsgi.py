"""``gevent.pywsgi``: WSGIServer, which answers with ``dhaga.http.wsgi``."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

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

SOFTWARE = "gevent/26.0 Python/dhaga"


class Answering(Server):
    """Answers requests on the connections that a WSGIServer accepts."""

    def __init__(self, server: WSGIServer) -> None:
        super().__init__(self.call, access_log=server.log, limits=Limits(), ssl_context=server.ssl_context)
        self.owner = server

    def call(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the current application, which may be replaced at any time."""
        return self.owner.application(environ, start_response)

    def report_failure(self, environ: dict[str, Any], error: Exception) -> bool:
        """Pass an error of the application to the hub. An application without a response may have answered itself."""
        if isinstance(error, NotStarted):
            if self.owner.error_log is not None:
                self.owner.error_log.write("the application did not call start_response(): the connection closes\n")
            return True
        shown = self.owner.secure_environ_class(environ)
        get_hub().handle_error(shown, type(error), error, error.__traceback__)
        return False

    def refusal_text(self, refusal: Refusal) -> str:
        """Return the body of gevent's answer."""
        return refusal.status[4:]

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        environ = super().new_base_environ(address) | {"SERVER_SOFTWARE": SOFTWARE}
        if self.owner.error_log is not None:
            environ["wsgi.errors"] = self.owner.error_log
        return environ | self.owner.base_env

    def stop_idle(self) -> None:
        """Close idle connections, and keep no connection open from now on."""
        self.stopping = True
        for connection in list(self.http_connections.values()):
            connection.stop_when_idle()


class WSGIServer(StreamServer):
    """Serves a WSGI app. Source: ``gevent.pywsgi.WSGIServer``; lines of the log are in the combined format.

    ``log``: a file or logger, "default" is stderr, None disables it. ``environ``: more for each environ.
    ``spawn``: as in StreamServer; a connection keeps its greenlet until it closes. ``handler_class``: WSGIHandler
    itself parses requests in C; a subclass answers them by its methods, in Python.
    """

    handler_class: Any = WSGIHandler
    environ_class: Any = dict
    secure_environ_class: Any = SecureEnviron
    """The class of a request's environ in the report of an error."""
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
        self.error_log: Any = as_log(error_log)
        super().__init__(listener, self.handle, backlog, spawn, **ssl_args)
        self.set_environ(None)

    def set_environ(self, environ: dict[str, Any] | None) -> None:
        """Set additional values for each request's environ."""
        self.base_env.update(environ or {})
        self.environ: dict[str, Any] = self.base_env
        self.answering: Answering = Answering(self)
        self.set_max_accept()

    def set_max_accept(self) -> None:
        """Accept one connection at a time if several processes accept from the listener."""
        if self.base_env.get("wsgi.multiprocess"):
            self.max_accept = 1

    def get_environ(self) -> Any:
        """Return the environ of a request before a WSGIHandler adds its values."""
        secure = self.ssl_context is not None
        address = self.server_host or socket.gethostname(), self.server_port or ""
        errors = sys.stderr if self.error_log is None else self.error_log
        more = {"wsgi.multithread": False}
        environ = self.environ_class(server_environ(SOFTWARE, address, secure, errors, **more))
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
        """Hook for subclasses: called once the address is known."""

    def handle(self, sock: Any, address: Any) -> None:
        """Answer the requests of a connection. Parks: until it closes."""
        if self.handler_class is WSGIHandler and self.environ_class is dict:
            self.answering.serve(sock, address)
        else:
            self.handler_class(sock, address, self).handle()

    def close(self) -> None:
        self.answering.stop_idle()
        super().close()


def as_log(log: Any) -> Any:
    """Return the object that a server writes lines to."""
    if log == "default":
        return sys.stderr
    if hasattr(log, "log") and not hasattr(log, "write"):
        return LoggingLogAdapter(log)
    return log
