"""The response to one request: the status and fields that an app passes to ``start_response``, and its result, are sent
as bytes of HTTP/1.1 (PEP 3333).

States: no status -> status set (an error can still replace the head) -> head sent -> ended (``sink`` raises an error
at further sends). The head waits for the first piece of the body, and both are sent in one call. So if the body is a
single piece, the head can state its length. The framing is chosen when the head is made. If the app gave a
Content-Length or the body is a single piece, the framing is Content-Length. Otherwise the body is sent in chunks.
HTTP/1.0 has no chunks; there, the end of the connection ends the body.
Sockets and time limits are in ``connection``, which this module uses only through ``ResponseSink``.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from typing import Any, Protocol

from ..._kernel.fast.compiled import compiled, known_layout
from ..._kernel.run.call_outs import calls_out
from .file_wrapper import FileWrapper
from .response_framing import BODILESS, LAST_CHUNK, Framing

logger = logging.getLogger("dhaga")

CACHE_SIZE = 1024
"""Maximum number of cached field names, and of cached statuses. An app uses a few dozen."""

JOIN_BYTES = 65_536
"""Maximum size of a body that is sent in one call with the head. A copy is faster than a second system call."""

TOKEN_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS_PATTERN = re.compile(r"[2-9][0-9][0-9] [^\0-\x1f\x7f]*(?<! )")

LENGTH_LINE = re.compile("^(?i:content-length): [0-9]+\r\n", re.MULTILINE)
NO_BODY = (*BODILESS, "205")
"""Statuses without a body. Status 204 has no Content-Length (RFC 9110, section 8.6). Status 205 has a Content-Length
of 0, because clients would otherwise wait for a body.
"""

CONTROL = re.compile(r"[\0-\x08\x0a-\x1f\x7f]")
"""Characters that a field must not contain (RFC 9110, section 5.5). A tab is allowed."""

ORDINARY, LENGTH, DATE, SERVER, SECRET = range(5)
SPECIAL_FIELDS = {"content-length": LENGTH, "date": DATE, "server": SERVER, "set-cookie": SECRET}
HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
    *("te", "trailer", "trailers", "transfer-encoding", "upgrade"),
}


class AppError(RuntimeError, AssertionError):
    """The error of an app that violates a rule of WSGI. The text names the rule.

    The class is also an AssertionError, because ``wsgiref``, gevent and eventlet raise an AssertionError.
    """


class NotStarted(AppError):
    """The error of an app that returned without calling ``start_response``."""


class HeaderNames(dict[str, int]):
    """The kind of each field name. Fields of the kind ORDINARY need no special treatment.

    Raises: AppError for a name that an app must not use.
    """

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str) or not TOKEN_PATTERN.fullmatch(name):
            raise AppError(f"{name!r} is not the name of a header field: it consists of letters, digits and hyphens")
        lower = name.lower()
        if lower in HOP_BY_HOP:
            raise AppError(f"only the server may send {name}: PEP 3333 forbids all hop-by-hop fields to apps")
        kind = SPECIAL_FIELDS.get(lower, ORDINARY)
        if len(self) < CACHE_SIZE:
            self[name] = kind
        return kind


class StatusLines(dict[str, str]):
    """The first line of the head for each status. Raises: AppError for an invalid status."""

    def __missing__(self, status: str) -> str:
        if not isinstance(status, str) or not STATUS_PATTERN.fullmatch(status):
            raise AppError(f"{status!r} is not a status: it is a str such as '200 OK', 200 or above")
        line = f"HTTP/1.1 {status}"
        if len(self) < CACHE_SIZE:
            self[status] = line
        return line


header_names = HeaderNames()
status_lines = StatusLines()


@known_layout
class ServerFields:
    """The lines of the Server and Date fields, formatted once per second.

    A server that has a clock must send Date (RFC 9110, section 6.6.1). ``software``: the value of Server. The field
    Server is not sent if ``software`` is empty.

    ``known_start``: four values of the last response whose fields are all ORDINARY or LENGTH: status, fields, lines and
    length. A response with the same status and fields reuses the lines, which avoids 8,000 machine instructions.
    """

    __slots__ = ("both_fields", "date", "known_start", "server", "until")

    def __init__(self, software: str) -> None:
        self.server: str = f"Server: {software}\r\n" if software else ""
        self.both_fields: str = ""
        self.date: str = ""
        self.until: float = 0.0
        self.known_start: tuple[str | None, list[tuple[str, ...]], str, int | None] = None, [], "", None

    def fields(self, app_fields: Sequence[int]) -> str:
        """Return the lines of both fields, except for a field that the app sets itself."""
        now = time.time()
        if now >= self.until or now < self.until - 1:
            self.until = int(now) + 1.0
            self.date = f"Date: {formatdate(now, usegmt=True)}\r\n"
            self.both_fields = self.server + self.date
        if not app_fields:
            return self.both_fields
        return ("" if SERVER in app_fields else self.server) + ("" if DATE in app_fields else self.date)


class ResponseSink(Protocol):
    """The destination of a response's bytes: the connection."""

    server_fields: ServerFields

    def send(self, data: bytes, /) -> None: ...

    def send_file(self, file: Any, offset: int, count: int, /) -> int: ...

    def keeps_alive(self) -> bool:
        """Return whether the connection stays open after this response. Called once, when the head is sent."""

    def close_after_response(self) -> None:
        """End the connection after this response."""


class ClosedSink:
    """The sink of an ended response. It raises an error, so that a late ``write`` does not reach the next response."""

    server_fields = ServerFields("")

    def send(self, data: bytes) -> None:
        raise AppError("the response has ended with its request: it cannot be written to any more")


CLOSED_SINK: Any = ClosedSink()


class TakenSink:
    """The sink of a connection that the app has taken over through its socket. It drops the app's result."""

    def send(self, data: bytes) -> None:
        """Drop the data."""


TAKEN_SINK: Any = TakenSink()


class Response(Framing):
    """One response, from ``start`` (the app's ``start_response``) to its last byte.

    ``lines``: the status line and the app's fields. ``length``: the app's Content-Length. ``sent``: whether the head is
    sent.
    """

    __slots__ = "app_fields", "length", "lines", "sent", "sink", "status", "version"

    def __init__(self, sink: ResponseSink, method: str, version: str) -> None:
        # Set the attributes of Framing here: a call of Framing.__init__ would take 0.7 % of a short request's time.
        self.bodiless = method == "HEAD"
        self.chunked = False
        self.remaining = None
        self.size = 0
        self.sink = sink
        self.version = version
        self.status = ""
        self.lines = ""
        self.app_fields: Sequence[int] = ()
        self.length: int | None = None
        self.sent = False

    # ---- for the app

    @compiled  # in C only for the first call, with the status and fields in ``known_start``
    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        """Set the status and the fields. The app calls this method as WSGI's ``start_response``.

        Returns: ``write``. Raises: AppError; the error of ``exc_info`` if the head is already sent.
        """
        if self.status or self.sent:
            if self.sink is TAKEN_SINK:
                return TAKEN_SINK.send
            self.restart(exc_info)
        known = self.sink.server_fields.known_start
        if headers == known[1] and status == known[0] and headers.__class__ is list:
            _, _, self.lines, self.length = known
            self.app_fields, self.status = (), status
            return self.write
        lines = [status_lines[status]]
        app_fields: list[int] = []
        length = None
        for name, value in headers:
            kind = header_names[name]
            if kind == LENGTH:
                former, length = length, parse_length(value, length)
                if former is not None:
                    continue  # send only one of two equal lengths (RFC 9110, section 8.6)
            elif kind:
                app_fields.append(kind)
            lines.append(name + ": " + value)
        text = "".join(lines)
        if not (text.isascii() and text.isprintable()):
            check_field_lines(lines)
        lines.append("")
        self.lines, self.app_fields, self.length = "\r\n".join(lines), app_fields, length
        self.status = status
        if headers.__class__ is list and not app_fields:
            # Store tuples: a field that is a list is not equal to a tuple. So a field that the app may change later is
            # never reused.
            self.sink.server_fields.known_start = status, [*map(tuple, headers)], self.lines, length
        return self.write

    def restart(self, exc_info: Any) -> None:
        if exc_info is None:
            raise AppError("start_response was already called; a second call is for errors and takes exc_info")
        try:
            if self.sent:
                raise exc_info[1].with_traceback(exc_info[2])
        finally:
            exc_info = None  # the traceback refers to this frame: break the cycle

    # ---- the app's result

    @calls_out
    def send_all(self, result: Iterable[bytes]) -> None:
        """Send the app's result piece by piece. Parks: as ``write`` does. Raises: OSError; errors of the app."""
        if result.__class__ is list and len(result) == 1 and not self.sent and self.status:
            self.send_whole(result[0])
            return
        if isinstance(result, FileWrapper):
            if self.send_file(result):
                return
        elif not self.sent and self.status and self.length is None and piece_count(result) == 1:
            self.send_whole(next(iter(result)))
            return
        for piece in result:
            if not self.sent and self.status and piece.__class__ is bytes and len(piece) == self.length:
                # The piece is the whole body of an iterable without len(), such as werkzeug's. Here, send_whole() saves
                # 4 calls.
                self.send_whole(piece)
                self.remaining = 0
            elif piece or piece.__class__ is not bytes:
                self.write(piece)
        self.finish()

    def send_whole(self, data: bytes) -> None:
        """Send a response whose body is the single piece ``data``, with its length as Content-Length."""
        if data.__class__ is not bytes:
            check_bytes(data)
        size = len(data)
        if (self.length is not None and self.length != size) or (self.bodiless and not size):
            self.send_first(data)  # the app may have left out the body because of HEAD: its length is unknown
            self.finish()
            return
        head = self.head(size, whole=self.length is None)
        self.sent = True
        self.remaining = None
        if self.bodiless:
            data, size = b"", 0
        self.size = size
        if size > JOIN_BYTES:
            self.sink.send(head)
            self.sink.send(data)
        else:
            self.sink.send(head + data)

    # ---- the head

    @compiled  # in C only for the heads that is_ordinary_head() of response_head.h accepts
    def head(self, length: int | None, whole: bool = False) -> bytes:
        """Return the head's bytes, and set the framing. ``whole``: whether the server has computed ``length``."""
        lines = self.lines + self.sink.server_fields.fields(self.app_fields)
        status = self.status
        if status.startswith(NO_BODY):
            self.bodiless = True
            if not status.startswith("304"):
                lines = LENGTH_LINE.sub("", lines) + ("Content-Length: 0\r\n" if status.startswith("205") else "")
        elif length is not None:
            self.remaining = length
            if whole:
                lines += f"Content-Length: {length}\r\n"
        elif self.settle(status, None, self.version):
            self.sink.close_after_response()
        elif self.chunked:
            lines += "Transfer-Encoding: chunked\r\n"
        keeps = self.sink.keeps_alive()
        if not keeps or self.version == "HTTP/1.0":
            lines += self.connection_fields(keeps)
        return (lines + "\r\n").encode("latin-1")

    def connection_fields(self, keeps: bool) -> str:
        """Return the line of the field Connection. From: ``head``, if the value is not the default of HTTP/1.1."""
        return f"Connection: {'keep-alive' if keeps else 'close'}\r\n"

    # ---- the end

    def finish(self) -> None:
        """Send the end of the body. If the body is shorter than its Content-Length, end the connection afterwards."""
        if not self.status:
            raise NotStarted("the app returned without calling start_response")
        if not self.sent:
            if self.length is None and not self.bodiless:
                self.send_whole(b"")
                return
            self.send_first(b"")
        if self.chunked:
            self.sink.send(LAST_CHUNK)
        elif self.lacks():
            self.lack()

    def lack(self) -> None:
        self.sink.close_after_response()
        logger.error("the app gave %s bytes less than its Content-Length, %s", self.remaining, self.length)

    # ---- bodies of several pieces, and files

    def write(self, data: bytes, /) -> None:
        """Send a piece of the body at once. Parks: while the client does not read. Raises: OSError, AppError."""
        if data.__class__ is not bytes:
            check_bytes(data)
        if not self.status:
            raise AppError("the app gave a body before it has called start_response")
        if not self.sent:
            self.send_first(data)
        elif data:
            self.send_more(data)

    def send_first(self, data: bytes) -> None:
        """Send the head together with the first piece of the body."""
        head = self.head(self.length)
        if data:
            data = self.frame(data)
        self.sent = True
        if len(data) > JOIN_BYTES:
            self.sink.send(head)
            self.sink.send(data)
        else:
            self.sink.send(head + data)

    def send_more(self, data: bytes) -> None:
        data = self.frame(data)
        if data:
            self.sink.send(data)

    def excess(self) -> None:
        logger.error("the app gave more than its Content-Length, %s; the rest is cut off", self.length)

    def send_file(self, wrapper: FileWrapper) -> bool:
        """Send a regular file. Returns: False, without sending, for any other file."""
        found = wrapper.remaining()
        if found is None or not self.status or self.sent:
            return False
        position, size = found
        count = size if self.length is None else min(size, self.length)
        head = self.head(count if self.length is None else self.length, whole=self.length is None)
        self.sent = True
        self.sink.send(head)
        if not self.bodiless:
            self.size = self.sink.send_file(wrapper.filelike, position, count)
            self.remaining = (self.remaining or 0) - self.size
        self.finish()
        return True


def parse_length(value: str, previous: int | None) -> int:
    """Return a Content-Length as an int. Raises: AppError if ``value`` is malformed or differs from ``previous``."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        raise AppError(f"Content-Length: {value!r} is not a number of bytes, a str of digits")
    length = int(value)
    if previous is not None and previous != length:
        raise AppError(f"two Content-Lengths: {previous} and {length}")
    return length


def piece_count(result: Any) -> int:
    """Return the number of a result's pieces, or -1 if it is unknown.

    If there is one piece, its size is the Content-Length (PEP 3333).
    """
    try:
        return len(result)
    except Exception:
        return -1


def check_field_lines(lines: list[str]) -> None:
    """Check the lines of a head. Raises: AppError for a control character, or a character outside Latin-1."""
    for line in lines:
        if CONTROL.search(line):
            raise AppError(f"CR, LF or another control character in a header field: {line!r}")
        try:
            line.encode("latin-1")
        except UnicodeEncodeError:
            raise AppError(f"a header field consists of Latin-1 characters (PEP 3333), unlike {line!r}") from None


def check_bytes(data: object) -> None:
    if not isinstance(data, bytes):
        raise AppError(f"a body consists of bytes, not of {type(data).__name__}")
