"""``eventlet.wsgi``: ``server``, on ``dhaga.http.wsgi.Server``."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.handlers import format_date_time

from ..._kernel.current import this_waiter
from ...http._server.connection import ServerConnection
from ...http.limits import Limits
from ...http.wsgi import Server
from ...socket import AF_INET, AF_INET6, IPPROTO_TCP, TCP_NODELAY, socket
from ...ssl import SSLSocket

__all__ = ["format_date_time", "server"]

DEFAULT_MAX_SIMULTANEOUS_REQUESTS = 1024
DEFAULT_MAX_HTTP_VERSION = "HTTP/1.1"
MAX_REQUEST_LINE = 8192
DEFAULT_LOG_FORMAT = (
    '%(client_ip)s - - [%(date_time)s] "%(request_line)s" %(status_code)s %(body_length)s %(wall_seconds).6f'
)


class Input:
    """The request's body as ``eventlet.input`` has it: a WebSocket takes the connection over by ``get_socket``."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self.environ = environ

    def __getattr__(self, name: str) -> Any:
        return getattr(self.environ["wsgi.input"], name)

    def __iter__(self) -> Any:
        return iter(self.environ["wsgi.input"])

    def get_socket(self) -> Any:
        """Return the connection's socket."""
        return self.environ["dhaga.upgrade"].__self__.sock


class Log:
    """Where lines go: a logger, a file, or standard error; and the access log's format."""

    def __init__(self, target: Any, form: str, forwarded: bool, debug: bool) -> None:
        self.target: Any = sys.stderr if target is None else target
        self.form = form
        self.forwarded = forwarded
        self.with_debug = debug

    def info(self, line: str) -> None:
        if hasattr(self.target, "info"):
            self.target.info(line)
        else:
            self.target.write(line + "\n")

    def debug(self, line: str) -> None:
        if hasattr(self.target, "info"):
            self.target.debug(line)
        elif self.with_debug:
            self.target.write(line + "\n")

    def write_entry(self, environ: dict[str, Any], status: str, size: int) -> None:
        """Write the line of an answered request. From: the connection."""
        client = environ.get("REMOTE_ADDR") or "-"
        forwarded = environ.get("HTTP_X_FORWARDED_FOR")
        line = f"{environ['REQUEST_METHOD']} {environ.get('REQUEST_URI', '-')} {environ['SERVER_PROTOCOL']}"
        values = {
            "client_ip": f"{client},{forwarded}" if forwarded and self.forwarded else client,
            "client_port": environ.get("REMOTE_PORT", ""),
            "date_time": time.strftime("%d/%b/%Y %H:%M:%S"),
            "request_line": line if line.isprintable() else line.encode("unicode_escape").decode(),
            "status_code": status[:3],
            "body_length": size,
            "wall_seconds": time.monotonic() - environ.get("eventlet.began", time.monotonic()),
        }
        self.info(self.form % values)


class Connection(ServerConnection):
    """A connection of ``WSGIServer``: it calls the hooks of ``eventlet.posthooks`` after each response."""

    __slots__ = ()

    def answer(self, environ: dict[str, Any]) -> None:
        environ["eventlet.began"] = time.monotonic()
        environ["eventlet.input"] = Input(environ)
        hooks: list[Any] = []
        environ["eventlet.posthooks"] = hooks
        try:
            super().answer(environ)
        finally:
            for hook, args, kwargs in hooks:
                hook(environ, *args, **kwargs)

    def keeps_alive(self) -> bool:
        if not self.server.keepalive:  # type: ignore[attr-defined]
            self.closing = True
        return super().keeps_alive()


class WSGIServer(Server):
    """Dhaga's server with eventlet's options."""

    def __init__(self, app: Any, sock: Any, options: dict[str, Any], log: Log, pool: Any, **more: Any) -> None:
        super().__init__(self.call_app, sock, name="eventlet.wsgi", **more)
        self.site = app
        self.options = options
        self.keepalive = bool(options["keepalive"]) and options["max_http_version"] != "HTTP/1.0"
        self.log = log
        self.pool = pool
        self.access_log = log if options["log_output"] else None  # type: ignore[assignment]
        self.pid = os.getpid()

    def new_base_environ(self, address: Any) -> dict[str, Any]:
        return super().new_base_environ(address) | (self.options["environ"] or {})

    def serve(self, sock: socket, peer: Any) -> None:
        if self.pool is None:
            self.serve_connection(sock, peer, this_waiter())
        else:
            self.pool.spawn(self.serve_connection, sock, peer, this_waiter()).wait()

    def serve_connection(self, sock: socket, peer: Any, key: Any) -> None:
        self.log.debug(f"({self.pid}) accepted {peer!r}")
        if sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        connection = self.http_connections[key] = Connection(self, sock, peer)
        try:
            connection.serve_requests()
        finally:
            del self.http_connections[key]

    def call_app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the site. An error that it raises is shown to the client, with ``debug``."""
        try:
            return self.site(environ, self.beginning(start_response))  # type: ignore[no-any-return]
        except Exception:
            if not self.options["debug"] or start_response.__self__.status:
                raise
            text = traceback.format_exc()
            self.log.info(text)
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")])
            return [text.encode()]

    def beginning(self, start_response: Any) -> Callable[..., Any]:
        """Return a ``start_response`` that takes what eventlet's takes: the field ``Connection``, and any case."""
        capitalize = self.options["capitalize_response_headers"]

        def begin(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            kept = [(name, value) for name, value in headers if name.lower() not in ("connection", "keep-alive")]
            if len(kept) < len(headers) and ("connection", "close") in [(n.lower(), v.lower()) for n, v in headers]:
                start_response.__self__.sink.close_after_response()
            if capitalize:
                kept = [("-".join(part.capitalize() for part in name.split("-")), value) for name, value in kept]
            return start_response(status, kept, exc_info)

        return begin


def server(
    sock: Any,
    site: Callable[..., Any],
    log: Any = None,
    environ: dict[str, Any] | None = None,
    max_size: int | None = None,
    max_http_version: str = DEFAULT_MAX_HTTP_VERSION,
    protocol: Any = None,
    server_event: Any = None,
    minimum_chunk_size: int | None = None,
    log_x_forwarded_for: bool = True,
    custom_pool: Any = None,
    keepalive: Any = True,
    log_output: bool = True,
    log_format: str = DEFAULT_LOG_FORMAT,
    url_length_limit: int = MAX_REQUEST_LINE,
    debug: bool = True,
    socket_timeout: float | None = None,
    capitalize_response_headers: bool = True,
) -> None:
    """Serve a WSGI app at a listening socket. Source: ``eventlet.wsgi.server``.

    Parks: until it is killed, or the socket shut down; then until the requests that are under way have ended.
    ``socket_timeout`` None means Dhaga's limits. Raises: NotImplementedError for a ``protocol``.
    """
    if protocol is not None:
        raise NotImplementedError("requests are not read by a class of http.server here: see dhaga.http.limits.Limits")
    if custom_pool is not None and not (hasattr(custom_pool, "spawn") and hasattr(custom_pool, "waitall")):
        raise AttributeError("custom_pool must have the methods spawn and waitall, as eventlet.GreenPool has")
    options = {
        "keepalive": keepalive,
        "max_http_version": max_http_version,
        "environ": environ,
        "log_output": log_output,
        "debug": debug,
        "capitalize_response_headers": capitalize_response_headers,
    }
    where = Log(log, log_format, log_x_forwarded_for, debug)
    is_tls = isinstance(sock, SSLSocket)
    serving = WSGIServer(
        site,
        plain(sock) if is_tls else sock,
        options,
        where,
        custom_pool,
        limits=limits_of(keepalive, url_length_limit, socket_timeout),
        max_connections=max_size or DEFAULT_MAX_SIMULTANEOUS_REQUESTS,
        ssl_context=sock.context if is_tls else None,
    )
    if server_event is not None:
        warnings.warn("the server_event of eventlet.wsgi.server() is deprecated", DeprecationWarning, 2)
        server_event.send(serving)
    name = sock.getsockname()
    host = "{}:{}".format(*name) if sock.family == AF_INET else str(name)
    where.info(f"({serving.pid}) wsgi starting up on {'https' if is_tls else 'http'}://{host}")
    try:
        serving.serve_forever(grace=None)
    finally:
        where.info(f"({serving.pid}) wsgi exited, is_accepting={not serving.stopping}")
        sock.close()


def limits_of(keepalive: Any, line: int, seconds: float | None) -> Limits:
    """Return the limits that the options mean; a number as ``keepalive`` bounds the time between two requests."""
    found: dict[str, Any] = {"line": line}
    if seconds is not None:
        found = dict.fromkeys(("idle_timeout", "header_timeout", "body_timeout", "write_timeout"), seconds) | found
    if keepalive and keepalive is not True:
        found["idle_timeout"] = keepalive
    return Limits(**found)


def plain(sock: SSLSocket) -> socket:
    """Return a listener without TLS on a copy of another one's descriptor."""
    return socket(sock.family, sock.type, sock.proto, fileno=os.dup(sock.fileno()))
