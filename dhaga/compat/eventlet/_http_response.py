"""The response to one request, for ``eventlet.wsgi``: small pieces are gathered, and the head waits for the first."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from time import time
from typing import Any
from wsgiref.handlers import format_date_time

from ...http._server.response import parse_length
from ._http_input import capitalized

capitalized_name = functools.lru_cache(1024)(capitalized)
"""Cached: an app repeats a few dozen names in all its responses."""

BODILESS = "204", "304"
"""Statuses without a body (RFC 9110, 6.4.1)."""


class Response:
    """Turns the output of a WSGI app into bytes. ``protocol``: the connection's HttpProtocol."""

    def __init__(self, protocol: Any, environ: dict[str, Any]) -> None:
        self.protocol = protocol
        self.environ = environ
        self.status: str = ""
        self.headers: list[tuple[str, str]] = []
        self.length: int | None = None
        self.names: set[str] = set()
        self.sent: bool = False
        self.chunked: bool = False
        self.bodiless: bool = protocol.command == "HEAD"
        self.size: int = 0
        self.client_gone: bool = False

    # ---- for the app

    def start(self, status: str, headers: Any, exc_info: Any = None) -> Callable[[Any], None]:
        """Set status and fields: ``start_response``. Returns: ``write``. Raises: AssertionError, or exc_info."""
        if exc_info:
            try:
                if self.sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # its traceback refers to this frame: a cycle
        elif self.status:
            raise AssertionError("start_response was called before; a second call is for errors and takes exc_info")
        self.status = status
        pairs = headers.items() if isinstance(headers, dict) else headers
        capital = self.protocol.capitalize_response_headers
        self.headers = []
        self.names = set()
        self.length = None
        for name, value in pairs:
            lower, value = name.lower(), str(value)
            if lower == "transfer-encoding":
                continue  # PEP 3333: the server frames the body
            self.headers.append((capitalized_name(name) if capital else name, value))
            self.names.add(lower)
            if lower == "content-length":
                self.length = parse_length(value, self.length)
            elif lower == "connection" and value.lower() == "close":
                self.protocol.close_connection = True
        return self.write

    def write(self, data: Any) -> None:
        """Send a piece of the body now. Parks: while the client does not read. Raises: OSError."""
        piece: bytes = data.encode("ascii") if isinstance(data, str) else bytes(data)
        head = b""
        if not self.sent:
            head = self.head()
            self.sent = True
        if self.length is not None and not self.bodiless:
            piece = self.cut_to_length(piece, self.length - self.size)
        self.size += len(piece)
        if self.bodiless:
            piece = b""
        elif self.chunked and piece:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if head or piece:
            self.send(head + piece)

    # ---- sending

    def cut_to_length(self, piece: bytes, left: int) -> bytes:
        """Cut off the excess over Content-Length: the client would read it as the next response."""
        if len(piece) > left:
            self.protocol.close_connection = True
            self.protocol.server.log.error(f"the app gives more than its Content-Length, {self.length}")
        return piece[:left]

    def send(self, data: bytes) -> None:
        try:
            self.protocol.wfile.write(data)
        except OSError:
            self.client_gone = True
            raise

    def head(self) -> bytes:
        """Return the head's bytes; this decides the framing. Raises: AssertionError, ValueError."""
        if not self.status:
            raise AssertionError("the app gives a body before it has called start_response")
        protocol = self.protocol
        lines = [f"{protocol.protocol_version} {self.status}", *(f"{name}: {value}" for name, value in self.headers)]
        if "date" not in self.names:
            lines.append(f"Date: {format_date_time(time())}")
        if self.status.startswith(BODILESS):
            self.bodiless = True
        elif self.length is None:
            if protocol.request_version == protocol.protocol_version == "HTTP/1.1":
                self.chunked = not self.bodiless
                lines.append("Transfer-Encoding: chunked")
            else:
                protocol.close_connection = True
        if "connection" not in self.names:
            lines += self.connection_lines()
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
            raise ValueError("CR or LF in a header field, or in the status")
        return (text + "\r\n\r\n").encode("latin-1")

    def connection_lines(self) -> list[str]:
        """Return the field that says whether the connection is kept, if the response needs one."""
        protocol = self.protocol
        body = self.environ["eventlet.input"]
        if body.client_waits and not body.at_end:
            protocol.close_connection = True  # only the client knows whether its body follows
        body.response_has_begun()
        if protocol.close_connection:
            return ["Connection: close"]
        if not protocol.asked_to_keep:
            return []
        seconds = protocol.server.keepalive
        return ["Connection: keep-alive", *([f"Keep-Alive: timeout={int(seconds)}"] if seconds is not True else [])]

    # ---- the app's result

    def send_all(self, result: Iterable[Any]) -> None:
        """Send the app's result, in pieces of ``minimum_chunk_size`` bytes or more. Raises: the app's errors."""
        minimum = self.environ.get("eventlet.minimum_write_chunk_size", self.protocol.minimum_chunk_size)
        if not self.sent and self.length is None and hasattr(result, "__len__"):
            self.announce(sum(map(len, result)))
        pieces: list[bytes] = []
        size = 0
        for data in result:
            if not data:
                continue
            if isinstance(data, str):
                data = data.encode("ascii")
            pieces.append(data)
            size += len(data)
            if size >= minimum:
                self.write(b"".join(pieces))
                pieces, size = [], 0
        if not pieces and not self.sent and self.protocol.is_handled():
            return
        if pieces or not self.sent:
            self.write(b"".join(pieces))
        if self.chunked:
            self.send(b"0\r\n\r\n")
        elif self.length is not None and not self.bodiless and self.size < self.length:
            self.protocol.close_connection = True  # the client still waits for the rest

    def announce(self, size: int) -> None:
        """Add the length of the body, if the app has left it out and the status has one."""
        if self.status and not self.status.startswith(BODILESS):
            self.length = size
            self.headers.append(("Content-Length", str(size)))

    def fail(self, status: str, text: bytes) -> None:
        """Answer for an app that failed, or cut off a response that has begun."""
        self.protocol.close_connection = True
        if self.sent or self.client_gone:
            return
        self.status = ""
        self.start(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
        self.write(text)
