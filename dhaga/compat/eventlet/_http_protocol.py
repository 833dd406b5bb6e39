"""HttpProtocol serves the requests of one connection of ``eventlet.wsgi``, one after another. Programs may subclass it.

A connection is idle, in a request, or in its last request. When the server ends, it reads this state in
``conn_state[2]``. ``request_file`` reads requests and refuses ambiguous ones. As in eventlet, a request may lack Host.
"""

from __future__ import annotations

import io
import traceback
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from greenlet import getcurrent

from ..._kernel import originals
from ...http._server.access_log import escape
from ...http._server.app_socket import has_closed
from ...http._server.request_file import FileHead, LineTooLong, environ_key
from ...http._server.response import CLOSED_SINK
from ...http.limits import Refusal
from ...socket import AF_INET, AF_INET6, IPPROTO_TCP, SHUT_WR, TCP_NODELAY
from ._connection_files import ConnectionReader, ConnectionWriter, is_wrapped
from ._http_input import ChunkReadError, Input
from ._http_response import Response
from .corolocal import local
from .timeout import Timeout

MINIMUM_CHUNK_SIZE = 4096
MAX_REQUEST_LINE = 8192
MAX_HEADER_LINE = 8192
MAX_TOTAL_HEADER_SIZE = 65_536

STATE_IDLE, STATE_REQUEST, STATE_CLOSE = "idle", "request", "close"
"""States of a connection: idle, in a request, in its last request."""

LINGER_SECONDS = 1.0
LINGER_BYTES = 262_144
"""Limits for discarding data that a client still sends: seconds of one read, and bytes of a body of unknown size. An
earlier close would lose the response.
"""

FRAMING_FIELDS = "connection", "content-length", "expect", "transfer-encoding"

UNPREFIXED = "CONTENT_TYPE", "CONTENT_LENGTH"

STATUSES = {"431 Request Header Fields Too Large": "400 Headers Too Large"}
"""The status texts of refusals that differ between Dhaga and eventlet: Dhaga's text, and eventlet's."""

WSGI_LOCAL = local()
"""``WSGI_LOCAL.already_handled = True`` means that the app has answered on the connection's socket."""


class BadRequest(Exception):
    """Raised for a request that is refused; the text is the response's status."""


class HeaderLineTooLong(BadRequest):
    pass


class HeadersTooLarge(BadRequest):
    pass


class HttpProtocol(BaseHTTPRequestHandler):
    """The handler of one connection. Source: ``eventlet.wsgi.HttpProtocol``. ``Server.process_request`` creates it.

    ``conn_state``: address, socket and state. Parks: while the client sends nothing or does not read.
    """

    protocol_version = "HTTP/1.1"
    minimum_chunk_size = MINIMUM_CHUNK_SIZE
    capitalize_response_headers = True
    reject_bad_requests = True
    disable_nagle_algorithm = True
    rbufsize = 16_384

    server: Any
    connection: Any
    head: Any
    rfile: Any
    wfile: Any
    headers: Any

    def __init__(self, conn_state: list[Any], server: Any) -> None:
        self.conn_state = conn_state
        self.upgraded: bool = False
        self.request: Any = conn_state[1]
        self.client_address: tuple[str, int] = conn_state[0]
        self.server = server
        self.asked_to_keep: bool = False
        self.setup()
        try:
            self.handle()
        finally:
            self.finish()

    def setup(self) -> None:
        """Set the socket's options and create the connection's files."""
        sock = self.connection = self.request
        if self.disable_nagle_algorithm and sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        if self.server.socket_timeout is not None:
            sock.settimeout(self.server.socket_timeout)
        self.reader: ConnectionReader = ConnectionReader(sock)
        if is_wrapped(sock, "makefile"):
            self.rfile, self.wfile = sock.makefile("rb", self.rbufsize), sock.makefile("wb", 0)
        else:
            self.rfile, self.wfile = io.BufferedReader(self.reader, self.rbufsize), ConnectionWriter(sock)
        self.body: Input | None = None
        self.response: Response | None = None
        self.served: int = 0

    def handle(self) -> None:
        """Serve requests until the connection ends."""
        self.close_connection = True
        while True:
            before = copy_context()
            self.handle_one_request()
            getcurrent().gr_context = before  # context variables set in a request must not reach the next
            if self.conn_state[2] is STATE_CLOSE or self.close_connection:
                return

    def finish(self) -> None:
        """Discard data that the client still sends, so that the client can read the response. Then close the files."""
        self.drain()
        if is_wrapped(self.request, "makefile"):
            for file in self.rfile, self.wfile:
                with suppress(OSError):
                    file.close()

    def drain(self) -> None:
        if self.body is None or self.body.at_end or self.body.was_declined:
            return
        try:
            self.connection.shutdown(SHUT_WR)
            self.connection.settimeout(LINGER_SECONDS)
            left = self.body.left or LINGER_BYTES
            while left > 0 and (data := self.connection.recv(65_536)):
                left -= len(data)
        except OSError:
            pass  # the client has gone, or waits for the response

    # ---- requests

    def handle_one_request(self) -> None:
        """Receive and answer one request. Sets ``close_connection``."""
        self.close_connection = True
        self.body = None
        try:
            self.raw_requestline: bytes = self.receive_request_line()
            if not self.raw_requestline:
                return
            if len(self.raw_requestline) > self.server.url_length_limit:
                raise BadRequest("414 Request URI Too Long")
            self.request_version, self.command, self.requestline, self.head = "HTTP/1.0", "", "", None
            if not self.parse_request():
                return
            self.head = self.head or self.framing()
            environ = self.environ = self.get_environ()
        except BadRequest as refused:
            self.refuse(str(refused))
            return
        except OSError as error:  # the client has gone, or was too slow
            self.server.log.debug(f"({self.server.pid}) the connection to {self.client_address!r} ends: {error}")
            return
        if not self.server.keepalive:
            self.close_connection = True
        self.handle_one_response(environ)

    def receive_request_line(self) -> bytes:
        """Return the next request's first line; b"" if the client has closed. The connection is idle meanwhile."""
        if self.conn_state[2] is not STATE_CLOSE:
            self.conn_state[2] = STATE_IDLE
        seconds = self.server.keepalive
        is_timed = self.served > 0 and seconds is not True
        if is_timed:
            self.connection.settimeout(seconds)
        line: bytes = self.rfile.readline(self.server.url_length_limit + 1)
        if line == b"\r\n":
            line = self.rfile.readline(self.server.url_length_limit + 1)
        if is_timed:
            self.connection.settimeout(self.server.socket_timeout)
        if line and self.conn_state[2] is not STATE_CLOSE:
            self.conn_state[2] = STATE_REQUEST
        self.served += 1
        return line

    def parse_request(self) -> bool:
        """Read the rest of the head and parse it.

        Returns: True; an override returns False if it has answered the request itself. Raises: BadRequest, OSError.
        """
        head = self.head = self.read_head(self.rfile, self.raw_requestline)
        self.requestline: str = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        self.command, self.path, self.request_version = self.requestline.split(" ")
        self.headers = self.MessageClass()
        for name, value in head.fields:
            self.headers[name] = value
        self.note_connection()
        # With HTTP/1.0, a client that sends Expect may never send its body.
        expects_in_vain = self.request_version == "HTTP/1.0" and "Expect" in self.headers
        self.close_connection = not head.persistent or self.protocol_version != "HTTP/1.1" or expects_in_vain
        return True

    def read_head(self, file: Any, request_line: bytes) -> FileHead:
        """Read a head and refuse violations of HTTP. Raises: BadRequest, OSError."""
        edit = list if self.reject_bad_requests else self.without_length
        try:
            return FileHead(file, request_line, self.server.limits, edit)
        except LineTooLong:
            raise HeaderLineTooLong("400 Header Line Too Long") from None
        except Refusal as refusal:
            raise BadRequest(STATUSES.get(refusal.status, refusal.status)) from None

    def framing(self) -> FileHead:
        """Return the request's framing, for an override of ``parse_request`` that parsed the head itself (as in Swift).

        The fields are parsed again strictly. The override's email parser leaves a malformed field and all later fields
        in the payload, so the payload is also parsed. Raises: BadRequest.
        """
        pairs = list(self.headers.items())
        for line in str(self.headers.get_payload() or "").rstrip("\r\n").splitlines():
            name, colon, value = line.partition(":")
            if not colon or not name or name[:1].isspace() or name[-1:].isspace():
                raise BadRequest("400 Bad Request")
            pairs.append((name, value.strip()))
        lines = [f"{name}: {value}\r\n" for name, value in pairs if name.lower() in FRAMING_FIELDS]
        self.note_connection()
        head = "".join([*lines, "\r\n"]).encode("latin-1", "replace")
        return self.read_head(io.BytesIO(head), f"POST / {self.request_version}\r\n".encode("latin-1"))

    def note_connection(self) -> None:
        options = {option.strip().lower() for option in self.headers.get("Connection", "").split(",")}
        self.asked_to_keep = "keep-alive" in options

    def handle_expect_100(self) -> bool:
        """Return True and send nothing: ``wsgi.input`` sends 100 Continue once the app reads from it."""
        return True

    def without_length(self, lines: list[bytes]) -> list[bytes]:
        """Remove Content-Length from a head that has Transfer-Encoding, which overrides it (RFC 9112, 6.3)."""
        if not any(line.lower().startswith(b"transfer-encoding:") for line in lines):
            return lines
        return [line for line in lines if not line.lower().startswith(b"content-length:")]

    def refuse(self, status: str) -> None:
        """Answer a refused request and close the connection."""
        self.close_connection = True
        # finish() drains this body, so that the client can read the response.
        self.body = self.body or Input(self.rfile, None, self.connection)
        try:
            head = f"HTTP/1.0 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.wfile.write(head.encode("latin-1"))
        except OSError:
            pass  # the client has gone

    # ---- environ

    def get_environ(self) -> dict[str, Any]:
        """Return the request's environ."""
        environ: dict[str, Any] = self.server.get_environ()
        path, _, query = self.path.partition("?")
        host, port = self.server_address()
        environ.update(
            REQUEST_METHOD=self.command,
            SCRIPT_NAME="",
            RAW_PATH_INFO=path,
            PATH_INFO=unquote(path, encoding="latin-1") if "%" in path else path,
            QUERY_STRING=query,
            CONTENT_TYPE=self.headers.get("Content-Type") or "text/plain",
            SERVER_PROTOCOL=self.request_version,
            SERVER_NAME=host,
            SERVER_PORT=port,
            REQUEST_URI=self.path,
            GATEWAY_INTERFACE="CGI/1.1",
        )
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = self.get_client_address()
        environ["headers_raw"] = raw = tuple(self.headers.items())
        for name, value in raw:
            self.add_field(environ, name, value)
        body = self.body = self.new_body()
        environ["CONTENT_LENGTH"] = str(body.left) if self.headers.get("Content-Length") else ""
        if not environ["CONTENT_LENGTH"]:
            del environ["CONTENT_LENGTH"]
        environ["wsgi.input"] = environ["eventlet.input"] = body
        environ["eventlet.posthooks"] = []
        environ["eventlet.set_idle"] = self.set_idle
        environ["dhaga.upgrade"] = partial(self.upgrade, body)
        environ["dhaga.disconnected"] = self.disconnected
        return environ

    def add_field(self, environ: dict[str, Any], name: str, value: str) -> None:
        """Add a header field to the environ, unless apps must not see the field."""
        key = environ_key(name)
        if key is None or key in UNPREFIXED:
            return
        environ[key] = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}" if key in environ else value

    def new_body(self) -> Input:
        """Return the request's body, according to the framing in its head."""
        send = self.wfile.write if self.head.expects_continue else None
        return Input(self.rfile, self.head.length, self.connection, send)

    def get_client_address(self) -> tuple[str, str]:
        """Return the client's host and port, as text."""
        return host_and_port(self.client_address)

    def server_address(self) -> tuple[str, str]:
        """Return the server's host and port, as text."""
        return host_and_port(self.server.server_address)

    def set_idle(self) -> None:
        """Mark the connection as idle (``eventlet.set_idle``), so that a stopping server may close it at once."""
        if self.conn_state[2] is STATE_REQUEST:
            self.conn_state[2] = STATE_IDLE

    def upgrade(self, body: Input) -> tuple[Any, bytes]:
        """Pass the connection to the app (``dhaga.upgrade``). ``body``: the body of the app's request.

        Returns: the socket, and the bytes received so far. Raises: RuntimeError.
        """
        response = self.response
        if self.upgraded or body is not self.body or response is None or response.sent:
            raise RuntimeError("a connection can be taken over only once, and only before the response has begun")
        self.reader.stopped = True
        self.close_connection = self.upgraded = True
        return self.connection, self.rfile.read(65_536) or b""

    def disconnected(self) -> bool:
        """Return whether the client has closed its side (``dhaga.disconnected``). Parks: never."""
        return has_closed(self.connection)

    # ---- responses

    def handle_one_response(self, environ: dict[str, Any] | None = None) -> None:
        """Call the app, send its result, call the hooks, and log.

        Raises: errors of the app that are neither an Exception nor a Timeout, such as GreenletExit.
        """
        environ = self.environ = self.environ if environ is None else environ
        began = originals.monotonic()
        response = self.response = Response(self, environ)
        try:
            self.call_app(environ, response)
            if self.body is not None and not self.close_connection and not self.body.discard():
                self.close_connection = True
        except (OSError, ChunkReadError):
            self.close_connection = True  # the client has gone in the middle of its request
        finally:
            for hook, args, kwargs in environ["eventlet.posthooks"]:
                hook(environ, *args, **kwargs)
            self.log_response(environ, response, originals.monotonic() - began)
            response.sink, self.response = CLOSED_SINK, None

    def call_app(self, environ: dict[str, Any], response: Response) -> None:
        """Call the app and send its result, or an error response if the app fails. Raises: OSError of that response."""
        result: Any = None
        WSGI_LOCAL.__dict__.pop("already_handled", None)
        try:
            result = self.server.app(environ, response.start)
            if not self.is_handled():
                response.send_all(result)
        except ChunkReadError as error:
            self.close_connection = True
            response.fail(error.status, b"")
        except (Exception, Timeout):
            self.close_connection: bool = True
            text = traceback.format_exc()
            if not response.sink.client_gone and not environ["eventlet.input"].client_gone:
                self.server.log.error(text)
                if not self.upgraded:
                    response.fail("500 Internal Server Error", text.encode() if self.server.debug else b"")
        finally:
            if hasattr(result, "close"):
                result.close()

    def is_handled(self) -> bool:
        """Return whether the app has answered on the connection's socket."""
        return self.upgraded or bool(WSGI_LOCAL.__dict__.get("already_handled"))

    def log_response(self, environ: dict[str, Any], response: Response, seconds: float) -> None:
        """Write a line to the access log."""
        if not self.server.log_output:
            return
        client = self.get_client_address()
        forwarded = self.headers.get("X-Forwarded-For", "").replace(" ", "") if self.server.log_x_forwarded_for else ""
        values = {
            "client_ip": f"{printable(forwarded)},{client[0]}" if forwarded else client[0],
            "client_port": client[1],
            "date_time": self.log_date_time_string(),
            "request_line": printable(self.requestline),
            "status_code": response.status[:3] or "-",
            "body_length": response.size,
            "wall_seconds": seconds,
        }
        self.server.log.info(self.server.log_format % values)

    def log_message(self, format: str, *args: Any) -> None:
        """Write a line to the server's log. From: ``send_error`` of the base class."""
        self.server.log.info(f"{self.get_client_address()[0]} - {format % args}")


def printable(text: str) -> str:
    """Return a client's text, escaped if needed, for a log line."""
    return text if text.isascii() and text.isprintable() else escape(text)


def host_and_port(address: Any) -> tuple[str, str]:
    """Return host and port of an address as text; for a Unix socket, return ``unix`` and an empty string."""
    if isinstance(address, tuple):
        return str(address[0]), str(address[1])
    return "unix", ""
