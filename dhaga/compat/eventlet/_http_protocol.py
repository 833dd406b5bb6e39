"""HttpProtocol: one connection of ``eventlet.wsgi``, request after request. A program may derive its own from it.

A connection is idle, in a request, or closing: ``conn_state[2]``, which the server reads when it ends. As in eventlet a
request may lack Host; what two programs may read differently is refused, unless ``reject_bad_requests`` is false.
"""

from __future__ import annotations

import io
import traceback
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote

from ..._kernel import originals
from ...socket import AF_INET, AF_INET6, IPPROTO_TCP, SHUT_WR, TCP_NODELAY
from ._http_input import ChunkReadError, Input
from ._http_response import Response
from .corolocal import local
from .timeout import Timeout

MINIMUM_CHUNK_SIZE = 4096
MAX_REQUEST_LINE = 8192
MAX_HEADER_LINE = 8192
MAX_TOTAL_HEADER_SIZE = 65_536

STATE_IDLE, STATE_REQUEST, STATE_CLOSE = "idle", "request", "close"
"""What a connection does: nothing, answer a request, or answer its last one."""

LINGER_SECONDS = 1.0
LINGER_BYTES = 262_144
"""How long, and how much, a client that still sends is read after its last response: a close at once discards that."""

UNPREFIXED = "CONTENT_TYPE", "CONTENT_LENGTH"

WSGI_LOCAL = local()
"""``WSGI_LOCAL.already_handled = True``: the app has answered by itself, on the connection's socket."""


class BadRequest(Exception):
    """A request that is not served; the text is the status."""


class HeaderLineTooLong(BadRequest):
    pass


class HeadersTooLarge(BadRequest):
    pass


class ConnectionReader(io.RawIOBase):
    """The receiving side of a connection; once it is stopped, a reader gives what it has, and never waits."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock
        self.stopped = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> Any:
        return None if self.stopped else self.sock.recv_into(buffer)


class ConnectionWriter(io.RawIOBase):
    """The sending side of a connection, without a buffer."""

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self.sock = sock

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.sock.sendall(data)
        return len(data)


class HttpProtocol(BaseHTTPRequestHandler):
    """Serves one connection. Source: ``eventlet.wsgi.HttpProtocol``. Made by ``Server.process_request``.

    ``conn_state``: address, socket and state. Parks: while the client sends nothing, or does not read.
    """

    protocol_version = "HTTP/1.1"
    minimum_chunk_size = MINIMUM_CHUNK_SIZE
    capitalize_response_headers = True
    reject_bad_requests = True
    disable_nagle_algorithm = True
    rbufsize = 16_384

    server: Any
    connection: Any
    rfile: Any
    wfile: Any
    headers: Any

    def __init__(self, conn_state: list[Any], server: Any) -> None:
        self.conn_state = conn_state
        self.upgraded = False
        self.request = conn_state[1]
        self.client_address = conn_state[0]
        self.server = server
        self.asked_to_keep = False
        self.setup()
        try:
            self.handle()
        finally:
            self.finish()

    def setup(self) -> None:
        """Begin with a connection."""
        sock = self.connection = self.request
        if self.disable_nagle_algorithm and sock.family in (AF_INET, AF_INET6):
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        if self.server.socket_timeout is not None:
            sock.settimeout(self.server.socket_timeout)
        self.reader = ConnectionReader(sock)
        self.rfile = io.BufferedReader(self.reader, self.rbufsize)
        self.wfile = ConnectionWriter(sock)
        self.body: Input | None = None
        self.served = 0

    def handle(self) -> None:
        """Serve requests until the connection ends."""
        self.close_connection = True
        while True:
            self.handle_one_request()
            if self.conn_state[2] is STATE_CLOSE or self.close_connection:
                return

    def finish(self) -> None:
        """Let a client that still sends read its response. Raises: nothing."""
        if self.body is None or self.body.at_end or self.body.was_declined:
            return
        try:
            self.connection.shutdown(SHUT_WR)
            self.connection.settimeout(LINGER_SECONDS)
            left = self.body.left or LINGER_BYTES
            while left > 0 and (data := self.connection.recv(65_536)):
                left -= len(data)
        except OSError:
            pass  # the client has gone, or waits

    # ---- requests

    def handle_one_request(self) -> None:
        """Receive a request and answer it. Sets ``close_connection``."""
        self.close_connection = True
        self.body = None
        try:
            self.raw_requestline = self.receive_request_line()
            if not self.raw_requestline:
                return
            if len(self.raw_requestline) > self.server.url_length_limit:
                raise BadRequest("414 Request URI Too Long")
            self.request_version, self.command, self.requestline = "HTTP/1.0", "", ""
            if not self.parse_request():
                return
            environ = self.environ = self.get_environ()
        except BadRequest as refused:
            self.refuse(str(refused))
            return
        except OSError:
            return  # the client has gone, or was too slow
        if not self.server.keepalive:
            self.close_connection = True
        self.handle_one_response(environ)

    def receive_request_line(self) -> bytes:
        """Return the first line of the next request; b"" if the client has closed. The connection is idle meanwhile."""
        if self.conn_state[2] is not STATE_CLOSE:
            self.conn_state[2] = STATE_IDLE
        seconds = self.server.keepalive
        is_timed = self.served > 0 and seconds is not True
        if is_timed:
            self.connection.settimeout(seconds)
        line: bytes = self.rfile.readline(self.server.url_length_limit + 1)
        if line in (b"\r\n", b"\n"):
            line = self.rfile.readline(self.server.url_length_limit + 1)
        if is_timed:
            self.connection.settimeout(self.server.socket_timeout)
        if line and self.conn_state[2] is not STATE_CLOSE:
            self.conn_state[2] = STATE_REQUEST
        self.served += 1
        return line

    def parse_request(self) -> bool:
        """Parse line and fields of the head. Returns: False if it has answered itself. Raises: BadRequest, OSError."""
        self.requestline = line = self.raw_requestline.decode("latin-1").rstrip("\r\n")
        words = line.split(" ")
        if len(words) != 3 or (not words[0].isalpha() and "-" not in words[0]) or not words[1]:
            raise BadRequest("400 Bad Request")
        self.command, self.path, self.request_version = words
        if self.request_version not in ("HTTP/1.0", "HTTP/1.1"):
            raise BadRequest("400 Bad Request" if self.request_version[:5] != "HTTP/" else "505 Version Not Supported")
        self.headers = self.receive_fields()
        options = {option.strip().lower() for option in self.headers.get("Connection", "").split(",")}
        is_new = self.request_version == self.protocol_version == "HTTP/1.1"
        self.asked_to_keep = "keep-alive" in options
        self.close_connection = "close" in options or not (is_new or self.asked_to_keep)
        if self.protocol_version != "HTTP/1.1":
            self.close_connection = True
        return True

    def receive_fields(self) -> HTTPMessage:
        """Receive the fields of the head. Raises: BadRequest, OSError."""
        fields = HTTPMessage()
        size = 0
        name, value = "", ""
        while True:
            line = self.rfile.readline(MAX_HEADER_LINE + 1)
            size += len(line)
            if len(line) > MAX_HEADER_LINE:
                raise HeaderLineTooLong("400 Header Line Too Long")
            if size > MAX_TOTAL_HEADER_SIZE:
                raise HeadersTooLarge("400 Headers Too Large")
            if not line:
                raise ConnectionResetError("the client has left in the middle of a head")
            if line[0] in b" \t" and name:  # a long field goes on, as it did before RFC 9112
                value += " " + line.decode("latin-1").strip(" \t\r\n")
                continue
            if name:
                fields[name] = value
            if line in (b"\r\n", b"\n"):
                return fields
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not name or name != name.strip(" \t\r\n") or "\0" in value:
                raise BadRequest("400 Bad Request")
            value = value.strip(" \t\r\n")

    def refuse(self, status: str) -> None:
        """Answer a request that is not served; the connection ends."""
        self.close_connection = True
        self.body = self.body or Input(self.rfile, None, self.connection)  # so that the client may read the answer
        try:
            head = f"HTTP/1.0 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            self.connection.sendall(head.encode("latin-1"))
        except OSError:
            pass  # the client has gone

    # ---- environ

    def get_environ(self) -> dict[str, Any]:
        """Return the request's environ. Raises: BadRequest."""
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
        environ["dhaga.upgrade"] = self.upgrade
        environ["dhaga.disconnected"] = self.disconnected
        return environ

    def add_field(self, environ: dict[str, Any], name: str, value: str) -> None:
        """Add a field, unless its name could pass for another one's, by its underscores."""
        if "_" in name:
            return
        key = name.upper().replace("-", "_")
        if key in UNPREFIXED or key == "PROXY":  # HTTP_PROXY would pass for a setting
            return
        key = f"HTTP_{key}"
        environ[key] = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ','}{value}" if key in environ else value

    def new_body(self) -> Input:
        """Return the request's body, by its framing. Raises: BadRequest."""
        lengths = self.headers.get_all("Content-Length", [])
        coding = self.headers.get("Transfer-Encoding")
        is_chunked = coding is not None and coding.lower() == "chunked"
        if coding is not None and self.reject_bad_requests and (lengths or not is_chunked):
            raise BadRequest("400 Bad Request")
        if len(set(lengths)) > 1 or not all(each.isascii() and each.isdigit() and len(each) < 20 for each in lengths):
            raise BadRequest("400 Bad Request")
        waits = self.headers.get("Expect", "").lower() == "100-continue"
        size = None if is_chunked else int(lengths[0]) if lengths else 0
        return Input(self.rfile, size, self.connection, self.connection.sendall if waits else None)

    def get_client_address(self) -> tuple[str, str]:
        """Return the client's host and port, as text."""
        return host_and_port(self.client_address)

    def server_address(self) -> tuple[str, str]:
        """Return the server's host and port, as text."""
        return host_and_port(self.server.server_address)

    def set_idle(self) -> None:
        """Let the server cut this connection when it ends: the app waits for its client. ``eventlet.set_idle``."""
        if self.conn_state[2] is STATE_REQUEST:
            self.conn_state[2] = STATE_IDLE

    def upgrade(self) -> tuple[Any, bytes]:
        """Take the connection over: ``environ["dhaga.upgrade"]``. Returns: socket, and the bytes already received."""
        self.reader.stopped = True
        self.close_connection = self.upgraded = True
        return self.connection, self.rfile.read(65_536) or b""

    def disconnected(self) -> bool:
        """Return whether the client has closed its side: ``environ["dhaga.disconnected"]``. Parks: never."""
        poll = originals.poll()
        poll.register(self.connection.fileno(), getattr(originals.select_module, "POLLRDHUP", 0))
        return bool(poll.poll(0))

    # ---- answers

    def handle_one_response(self, environ: dict[str, Any] | None = None) -> None:
        """Call the app, send what it returns, log it, and call the hooks. Raises: what is no Exception."""
        environ = self.environ = self.environ if environ is None else environ
        began = originals.monotonic()
        response = Response(self, environ)
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

    def call_app(self, environ: dict[str, Any], response: Response) -> None:
        """Call the app and send its result; answer for one that fails. Raises: OSError if the client has gone."""
        result: Any = None
        WSGI_LOCAL.__dict__.pop("already_handled", None)
        try:
            result = self.server.app(environ, response.start)
            if not self.is_handled():
                response.send_all(result)
        except (Exception, Timeout):
            self.close_connection = True
            text = traceback.format_exc()
            if not response.client_gone:
                self.server.log.error(text)
                if not self.upgraded:
                    response.fail(text.encode() if self.server.debug else b"")
        finally:
            if hasattr(result, "close"):
                result.close()

    def is_handled(self) -> bool:
        """Return whether the app has answered by itself."""
        return self.upgraded or bool(WSGI_LOCAL.__dict__.get("already_handled"))

    def log_response(self, environ: dict[str, Any], response: Response, seconds: float) -> None:
        """Write the access log's line."""
        if not self.server.log_output:
            return
        client = self.get_client_address()
        forwarded = self.headers.get("X-Forwarded-For", "").replace(" ", "") if self.server.log_x_forwarded_for else ""
        line = self.requestline
        values = {
            "client_ip": f"{forwarded},{client[0]}" if forwarded else client[0],
            "client_port": client[1],
            "date_time": self.log_date_time_string(),
            "request_line": line if line.isprintable() else line.encode("unicode_escape").decode(),
            "status_code": response.status[:3] or "-",
            "body_length": response.size,
            "wall_seconds": seconds,
        }
        self.server.log.info(self.server.log_format % values)

    def log_message(self, format: str, *args: Any) -> None:
        """Write a line to the server's log, as ``send_error`` does."""
        self.server.log.info(f"{self.get_client_address()[0]} - {format % args}")


def host_and_port(address: Any) -> tuple[str, str]:
    """Return host and port of an address, as text; of a Unix socket ``unix`` and nothing."""
    if isinstance(address, tuple):
        return str(address[0]), str(address[1])
    return "unix", ""
