"""``eventlet.wsgi``: a WSGI server. ``server`` accepts connections, and ``Server`` serves them.

``_http_protocol`` handles requests and responses. ``dhaga.http.wsgi`` is Dhaga's own server; it limits slow clients.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any
from wsgiref.handlers import format_date_time

from ..._iowait.accept_errors import ACCEPT_RETRY_SECONDS, EXHAUSTED, PEER_ERRORS
from ...http._server.request_environ import server_environ
from ...http._server.request_file import new_parser
from ...http.limits import Limits
from ...socket import AF_INET, AF_INET6, accept_in_burst, socket
from ...ssl import SSLSocket
from ._connection_files import is_wrapped
from ._http_input import ChunkReadError, Input
from ._http_protocol import (
    MAX_HEADER_LINE,
    MAX_REQUEST_LINE,
    MAX_TOTAL_HEADER_SIZE,
    MINIMUM_CHUNK_SIZE,
    STATE_CLOSE,
    STATE_IDLE,
    STATE_REQUEST,
    WSGI_LOCAL,
    HttpProtocol,
)
from .greenio import shutdown_safe
from .greenpool import GreenPool
from .greenthread import GreenThread, sleep

__all__ = [
    "ALREADY_HANDLED", "MAX_HEADER_LINE", "MAX_REQUEST_LINE", "MAX_TOTAL_HEADER_SIZE", "MINIMUM_CHUNK_SIZE",
    "STATE_CLOSE", "STATE_IDLE", "STATE_REQUEST", "WSGI_LOCAL", "ChunkReadError", "HttpProtocol", "Input", "Server",
    "format_date_time", "server",
]  # fmt: skip

DEFAULT_MAX_SIMULTANEOUS_REQUESTS = 1024
DEFAULT_MAX_HTTP_VERSION = "HTTP/1.1"
DEFAULT_LOG_FORMAT = (
    '%(client_ip)s - - [%(date_time)s] "%(request_line)s" %(status_code)s %(body_length)s %(wall_seconds).6f'
)

ALREADY_HANDLED: list[bytes] = []
"""Result of an app that has set ``WSGI_LOCAL.already_handled`` and answered on the socket."""

BURST = 1024
"""Number of connections accepted before a yield, so that new clients do not delay connected clients."""

HANDSHAKE_SECONDS = 30.0
"""Maximum number of seconds for a TLS handshake, unless ``socket_timeout`` is set."""


class FileLog:
    """A file, by default standard error, with the methods of a logger."""

    def __init__(self, file: Any, debug: bool) -> None:
        self.file: Any = sys.stderr if file is None else file
        self.with_debug = debug

    def info(self, line: str, *args: Any) -> None:
        """Write a line to the file."""
        self.file.write((line % args if args else line) + "\n")

    error = info

    def debug(self, line: str, *args: Any) -> None:
        """Write a line to the file if debug lines are enabled."""
        if self.with_debug:
            self.info(line, *args)


class NoLog:
    """A log that discards all lines; used if ``log_output`` is false."""

    def info(self, line: str, *args: Any) -> None:
        """Discard a line."""

    error = debug = info


def as_log(target: Any, debug: bool) -> Any:
    """Return a logger unchanged; wrap a file, so that it has the methods of a logger."""
    return target if hasattr(target, "info") and hasattr(target, "debug") else FileLog(target, debug)


class Server:
    """The state that a listener's connections share; ``server`` creates it. Source: ``eventlet.wsgi.Server``."""

    def __init__(
        self,
        socket: Any,
        address: Any,
        app: Any,
        log: Any = None,
        environ: dict[str, Any] | None = None,
        max_http_version: str | None = None,
        protocol: Any = HttpProtocol,
        minimum_chunk_size: int | None = None,
        log_x_forwarded_for: bool = True,
        keepalive: Any = True,
        log_output: bool = True,
        log_format: str = DEFAULT_LOG_FORMAT,
        url_length_limit: int = MAX_REQUEST_LINE,
        debug: bool = True,
        socket_timeout: float | None = None,
        capitalize_response_headers: bool = True,
    ) -> None:
        self.socket = socket
        self.address = self.server_address = address
        self.app = app
        self.environ = environ
        self.keepalive = keepalive
        self.log_output = log_output
        self.log_format = log_format
        self.log_x_forwarded_for = log_x_forwarded_for
        self.url_length_limit = url_length_limit
        self.debug = debug
        self.socket_timeout = socket_timeout
        self.pid: int = os.getpid()
        self.log: Any = as_log(log, debug) if log_output else NoLog()
        changed: dict[str, Any] = {}
        if minimum_chunk_size is not None:
            changed["minimum_chunk_size"] = minimum_chunk_size
        if not capitalize_response_headers:
            changed["capitalize_response_headers"] = False
        if max_http_version is not None and max_http_version != protocol.protocol_version:
            changed["protocol_version"] = max_http_version
        self.protocol: Any = type(protocol.__name__, (protocol,), changed) if changed else protocol
        self.ssl_context = socket.context if isinstance(socket, SSLSocket) else None
        # The module's constants are read here, because programs may set them.
        self.limits: Limits = Limits(line=max(url_length_limit, MAX_HEADER_LINE), head=MAX_TOTAL_HEADER_SIZE)
        new_parser(self.limits)  # if httptools is missing, this fails now, not at the first connection

    def get_environ(self) -> dict[str, Any]:
        """Return the values that the environs of all requests have in common."""
        secure = self.ssl_context is not None
        return server_environ("dhaga", self.server_address, secure, sys.stderr, **(self.environ or {}))

    def process_request(self, conn_state: list[Any]) -> None:
        """Serve a connection until it ends, and close it. ``conn_state``: address, socket and STATE_IDLE.

        Parks: while the client sends nothing or does not read. An OSError of the client ends its connection, and is
        logged at debug level only.
        """
        try:
            if self.ssl_context is not None and not isinstance(conn_state[1], SSLSocket):
                self.secure(conn_state)
            self.protocol(conn_state, self)
        except OSError as error:
            self.log.debug(f"({self.pid}) connection {conn_state[0]!r} ended: {error}")
        finally:
            self.close_connection(conn_state[1])

    def secure(self, conn_state: list[Any]) -> None:
        """Do the TLS handshake of a connection. Parks: during the handshake. Raises: OSError."""
        sock = conn_state[1]
        sock.settimeout(self.socket_timeout or HANDSHAKE_SECONDS)
        context: Any = self.ssl_context
        conn_state[1] = sock = context.wrap_socket(sock, server_side=True)
        sock.settimeout(None)

    def close_connection(self, sock: Any) -> None:
        """Close a connection. A TLS client gets the close notification, but its answer is not awaited."""
        if isinstance(sock, SSLSocket):
            try:
                sock.settimeout(0)
                sock.unwrap()
            except (OSError, ValueError):
                pass
        else:
            shutdown_safe(sock)
        sock.close()

    def log_message(self, message: str) -> None:
        """Write a line to the log."""
        self.log.info(message)


def server(
    sock: Any,
    site: Callable[..., Any],
    log: Any = None,
    environ: dict[str, Any] | None = None,
    max_size: int | None = None,
    max_http_version: str = DEFAULT_MAX_HTTP_VERSION,
    protocol: Any = HttpProtocol,
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
    """Serve a WSGI app at a listening socket. Source: ``eventlet.wsgi.server``, with its options.

    ``keepalive``: True, False, or the number of seconds that a connection may be idle. Parks: until the caller is
    killed, or the socket is closed; then until running requests have ended, unless they are in a ``custom_pool``.
    Raises: OSError if the socket cannot accept connections, also after its shutdown.
    """
    if custom_pool is not None and not (hasattr(custom_pool, "spawn") and hasattr(custom_pool, "waitall")):
        raise AttributeError("custom_pool must have the methods spawn and waitall, as eventlet.GreenPool has")
    serving = Server(
        sock,
        sock.getsockname(),
        site,
        log,
        environ,
        max_http_version,
        protocol,
        minimum_chunk_size,
        log_x_forwarded_for,
        keepalive,
        log_output,
        log_format,
        url_length_limit,
        debug,
        socket_timeout,
        capitalize_response_headers,
    )
    if server_event is not None:
        warnings.warn("the server_event of eventlet.wsgi.server() is deprecated", DeprecationWarning, 2)
        server_event.send(serving)
    pool = GreenPool(max_size or DEFAULT_MAX_SIMULTANEOUS_REQUESTS) if custom_pool is None else custom_pool
    serving.log.info(f"({serving.pid}) wsgi starting up on {url_of(sock)}")
    accepting = Accepting(serving, pool)
    try:
        accepting.run()
    except (KeyboardInterrupt, SystemExit):
        serving.log.info(f"({serving.pid}) wsgi exiting")
    finally:
        accepting.close_idle()
        if custom_pool is None:
            pool.waitall()
        serving.log.info(f"({serving.pid}) wsgi exited, is_accepting={accepting.is_accepting}")
        sock.close()


class Accepting:
    """The accept loop of ``server``, and the connections that it has accepted."""

    def __init__(self, serving: Server, pool: Any) -> None:
        self.serving = serving
        self.pool = pool
        self.connections: dict[int, list[Any]] = {}
        self.is_accepting: bool = True
        # If accept() did the TLS handshake, one slow client would delay all others.
        self.listener: socket | Any = plain(serving.socket) if isinstance(serving.socket, SSLSocket) else serving.socket
        is_own = is_wrapped(self.listener, "accept")
        self.accept_next: Any = (lambda listener: listener.accept()) if is_own else accept_in_burst

    def run(self) -> None:
        """Accept connections until the listener is closed. Raises: OSError."""
        try:
            for taken in count(1):
                if not self.is_accepting:
                    break
                self.accept()
                if taken % BURST == 0:
                    sleep(0)
        finally:
            if self.listener is not self.serving.socket:
                self.listener.close()

    def accept(self) -> None:
        """Accept a connection and spawn its greenthread. Parks: until a client comes, and while the pool is full."""
        try:
            client, address = self.accept_next(self.listener)
        except OSError as error:
            if error.errno in EXHAUSTED:
                sleep(ACCEPT_RETRY_SECONDS)
            elif error.errno == errno.EBADF:
                self.is_accepting = False
            elif error.errno not in PEER_ERRORS:
                raise
            return
        self.serving.log.debug(f"({self.serving.pid}) accepted {address!r}")
        conn_state = [address, client, STATE_IDLE]
        self.connections[id(conn_state)] = conn_state
        self.pool.spawn(self.serving.process_request, conn_state).link(self.forget, conn_state)

    def forget(self, greenthread: GreenThread, conn_state: list[Any]) -> None:
        """Remove a connection that has ended. From: the connection's greenthread."""
        self.connections.pop(id(conn_state), None)

    def close_idle(self) -> None:
        """Close the idle connections; other connections close after their current response."""
        for conn_state in list(self.connections.values()):
            former, conn_state[2] = conn_state[2], STATE_CLOSE
            if former is STATE_IDLE:
                shutdown_safe(conn_state[1])


def url_of(sock: Any) -> str:
    """Return the URL of a listener, for the log."""
    scheme = "https" if isinstance(sock, SSLSocket) else "http"
    name = sock.getsockname()
    if sock.family == AF_INET:
        return f"{scheme}://{name[0]}:{name[1]}"
    return f"{scheme}://[{name[0]}]:{name[1]}" if sock.family == AF_INET6 else f"{scheme}:{name}"


def plain(sock: SSLSocket) -> socket:
    """Return a listener without TLS, on a duplicate of a TLS listener's fd."""
    return socket(sock.family, sock.type, sock.proto, fileno=os.dup(sock.fileno()))
