"""``gevent.pywsgi``: WSGIServer, which answers by ``dhaga.http.wsgi``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from ...http.limits import Limits
from ...http.wsgi import Server
from .server import StreamServer

__all__ = ["LoggingLogAdapter", "WSGIHandler", "WSGIServer"]


class WSGIHandler:
    """Name of the only ``handler_class``: requests are parsed in C, no method of a handler is called."""


class LoggingLogAdapter:
    """A logger as a file to write lines to."""

    def __init__(self, logger: logging.Logger, level: int = logging.INFO) -> None:
        self.logger, self.level = logger, level

    def write(self, line: str) -> None:
        """Log a line."""
        self.logger.log(self.level, "%s", line.rstrip("\n"))

    def flush(self) -> None:
        """Do nothing."""

    def writelines(self, lines: Any) -> None:
        """Log each line."""
        for line in lines:
            self.write(line)


class Answering(Server):
    """The part of a server that answers: its connections are accepted by a WSGIServer."""

    def __init__(self, server: WSGIServer, app: Callable[..., Any], log: Any) -> None:
        super().__init__(app, access_log=log, limits=Limits(), ssl_context=server.ssl_context)
        self.owner = server

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        environ = super().new_base_environ(address) | {"SERVER_SOFTWARE": "gevent/26.0 Python/dhaga"}
        if self.owner.error_log is not None:
            environ["wsgi.errors"] = self.owner.error_log
        return environ | self.owner.base_env

    def stop_idle(self) -> None:
        """End what waits for a next request, and keep no connection from now on."""
        self.stopping = True
        for connection in list(self.http_connections.values()):
            connection.stop_when_idle()


class WSGIServer(StreamServer):
    """Serves a WSGI app. Source: ``gevent.pywsgi.WSGIServer``; lines of the log are in the combined format.

    ``log``: a file or logger, "default" is stderr, None is none. ``environ``: what each request's environ has besides.
    ``spawn``: as in StreamServer; a connection keeps its greenlet until it closes.
    """

    handler_class: Any = WSGIHandler
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
        if self.handler_class is not WSGIHandler:
            raise NotImplementedError(
                f"handler_class {self.handler_class!r}: no handler is called here. For WebSockets take "
                "simple-websocket or flask-sock, which find environ['werkzeug.socket']; for headers and logs wrap "
                "the app"
            )
        self.application: Any = application if application is not None else getattr(self, "application", None)
        self.base_env = {**type(self).base_env, **(environ or {})}
        self.log = as_log(log)
        self.error_log = as_log(error_log)
        super().__init__(listener, self.handle, backlog, spawn, **ssl_args)
        self.set_environ(None)

    def set_environ(self, environ: dict[str, Any] | None) -> None:
        """Take more for each request's environ."""
        self.base_env.update(environ or {})
        self.environ = self.base_env
        self.answering = Answering(self, self.call, self.log)

    def get_environ(self) -> dict[str, Any]:
        """Return what each request's environ has besides."""
        return dict(self.environ)

    def call(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the application, which may be set at any time."""
        return self.application(environ, start_response)

    def pre_start(self) -> None:
        super().pre_start()
        if self.answering.stopping:
            self.set_environ(None)
        self.update_environ()

    def update_environ(self) -> None:
        """Hook for subclasses: called once the address is known."""

    def handle(self, sock: Any, address: Any) -> None:
        """Answer the requests of a connection. Parks: until it closes."""
        self.answering.serve(sock, address)

    def close(self) -> None:
        self.answering.stop_idle()
        super().close()


def as_log(log: Any) -> Any:
    """Return where a server writes lines to."""
    if log == "default":
        return sys.stderr
    if isinstance(log, logging.Logger):
        return LoggingLogAdapter(log)
    return log
