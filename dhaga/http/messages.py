"""The requests of one connection: bytes go in, WSGI environs and pieces of bodies come out.

httptools (llhttp) parses; it is strict by default. What it lets through and HTTP/1.1 does not is refused here, each
with its reason: a request that two parsers may read in two ways is how requests are smuggled past a proxy. A head is
given to the parser only when it is whole, and one message at a time, so that nothing of the next request is parsed
while an app works on this one.

Not here: sockets and time-outs (``conversations.py``).
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser

from .heads import check_host, hosts, take_fields, take_target
from .limits import Limits as Limits
from .limits import Refusal as Refusal
from .limits import bad, too_large

END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with its trailers."""

REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z-]+) ([!\"$-~]+) HTTP/1\.([01])\r\n")
"""RFC 9112, 3; before it one empty line, which old clients send after a body (2.2). A target has no ``#``."""

BEGINNING = re.compile(rb"(?:\r(?:\n[A-Z-]*)?|[A-Z-]*)(?: .*)?", re.DOTALL)
OTHER_VERSION = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1\.[01])[0-9]\.[0-9]\r\n")
LONE_LF = re.compile(rb"(?<!\r)\n")
SLACK = 16_384
"""Bytes of chunk sizes, extensions and trailers that a body may have beyond what its length explains."""


class Messages:
    """Parse what comes on a connection: ``buffer`` holds what was received and not parsed yet.

    ``complete`` tells whether the current message is parsed to its end; ``pieces`` is what has come of its body.
    """

    __slots__ = (
        "__weakref__",
        "buffer",
        "chunked",
        "chunks",
        "complete",
        "expects",
        "fault",
        "limits",
        "overhead",
        "parser",
        "persistent",
        "pieces",
        "received",
        "rest",
        "tail",
    )

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.buffer = b""
        self.fault: Refusal | None = None
        self.complete = True
        self.persistent = True
        self.expects = False
        self.chunked = False
        self.chunks = self.overhead = self.received = self.rest = 0
        self.tail = b""
        self.pieces: deque[bytes] = deque()
        self.parser: Any = HttpRequestParser(self)

    # ---- what the parser calls

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.received += len(piece)

    def on_chunk_header(self) -> None:
        self.chunks += 1

    def on_message_complete(self) -> None:
        self.complete = True

    # ---- heads

    def head(self, base: dict[str, Any]) -> dict[str, Any] | None:
        """Parse the head at the beginning of the buffer into a copy of ``base``; None if it is not whole yet.

        Raises: Refusal.
        """
        data = self.buffer
        end = data.find(END) + 4
        line = REQUEST_LINE.match(data)
        if end == 3 or line is None:
            self.check_beginning(data, end > 3, line)
            return None
        self.buffer = data[end:]
        data = data[:end]
        fields = data[line.end() : -4].decode("latin-1").split("\r\n")
        if end > self.limits.line or len(fields) > self.limits.fields:
            self.check_size(data, fields)
        self.complete = self.expects = self.chunked = False
        upgrade = False
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            upgrade = True
        except HttpParserError as error:
            raise self.refusal(error) from None
        environ = base.copy()
        method, target, minor = line.groups()
        environ["REQUEST_METHOD"] = method.decode()
        if fields[0]:
            take_fields(environ, fields)
        take_target(environ, target.decode())
        if upgrade:
            self.resume(environ)
        self.take_framing(environ, minor)
        if method == b"CONNECT":
            self.persistent = False  # who asks for a tunnel sends no requests after it
        return environ

    def check_beginning(self, data: bytes, whole: bool, line: object) -> None:
        """Look whether this may become a head. Raises: Refusal."""
        first = data.find(b"\r\n", 2)
        if (first if first >= 0 else len(data)) > self.limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {self.limits.line} bytes")
        if len(data) > self.limits.head:
            raise too_large(f"the head has more than {self.limits.head} bytes")
        if LONE_LF.search(data):
            raise bad("a line ends in LF without CR")
        if (line is None and (whole or first >= 0)) or not BEGINNING.fullmatch(data):
            if OTHER_VERSION.match(data):
                raise Refusal("505 HTTP Version Not Supported", "the version is neither HTTP/1.0 nor HTTP/1.1")
            raise bad("the request line is malformed")

    def check_size(self, head: bytes, fields: list[str]) -> None:
        """Raises: Refusal for a head that is too large in itself, in a line or in the number of its fields."""
        limits = self.limits
        if len(head.removeprefix(b"\r\n").partition(b"\r\n")[0]) > limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {limits.line} bytes")
        if len(head) > limits.head or len(fields) > limits.fields or max(map(len, fields)) > limits.line:
            raise too_large(f"the head has {len(head)} bytes in {len(fields)} fields")

    def refusal(self, error: HttpParserError) -> Refusal:
        if isinstance(error, HttpParserInvalidMethodError):
            return Refusal("501 Not Implemented", "the method is unknown")
        return bad(str(error))

    # ---- framing

    def take_framing(self, environ: dict[str, Any], minor: bytes) -> None:
        """Find out how the message ends, and whether another may follow. Raises: Refusal."""
        if minor == b"1":
            environ["SERVER_PROTOCOL"] = "HTTP/1.1"
            host = environ.get("HTTP_HOST")
            if host is None:
                raise bad("Host is missing")
            self.persistent = True
        else:
            environ["SERVER_PROTOCOL"] = "HTTP/1.0"
            host = environ.get("HTTP_HOST", "")
            self.persistent = False
        if host not in hosts:
            check_host(host)
        if "HTTP_CONNECTION" in environ:
            self.take_connection(environ["HTTP_CONNECTION"].lower(), minor)
        if "HTTP_EXPECT" in environ and minor == b"1":
            self.take_expectation(environ["HTTP_EXPECT"])
        if not self.complete:
            self.take_body(environ, minor)
        elif "HTTP_TRANSFER_ENCODING" in environ:
            raise bad("Transfer-Encoding on a message that can have no body")

    def take_connection(self, options: str, minor: bytes) -> None:
        tokens = [token.strip(" \t") for token in options.split(",")]
        self.persistent = "close" not in tokens and (minor == b"1" or "keep-alive" in tokens)

    def take_expectation(self, expectation: str) -> None:
        if expectation.lower() != "100-continue":
            raise Refusal("417 Expectation Failed", f"Expect: {expectation!r}")
        self.expects = not self.complete

    def take_body(self, environ: dict[str, Any], minor: bytes) -> None:
        self.received = self.chunks = self.overhead = self.rest = 0
        self.tail = b""
        coding = environ.get("HTTP_TRANSFER_ENCODING")
        if coding is None:
            self.rest = int(environ["CONTENT_LENGTH"])
            self.check_body(self.rest)
            return
        if minor == b"0":
            raise bad("Transfer-Encoding in HTTP/1.0")
        if coding.lower() != "chunked":
            raise Refusal("501 Not Implemented", f"Transfer-Encoding: {coding!r}; chunked alone is understood")
        self.chunked = True

    def check_body(self, size: int) -> None:
        limit = self.limits.body
        if limit is not None and size > limit:
            raise Refusal("413 Content Too Large", f"the body has more than {limit} bytes")

    def resume(self, environ: dict[str, Any]) -> None:
        """Go on where the parser stops, at an upgrade, as if it were none: the app decides, and a body comes first."""
        length, coding = environ.get("CONTENT_LENGTH", "0"), environ.get("HTTP_TRANSFER_ENCODING")
        if environ["REQUEST_METHOD"] == "CONNECT":
            if length != "0" or coding:
                raise bad("CONNECT with a body")
        elif length.strip("0") or coding:
            framing = f"Transfer-Encoding: {coding}" if coding else f"Content-Length: {length}"
            self.complete = False
            self.parser = HttpRequestParser(self)
            self.parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode("latin-1"))

    def close(self) -> None:
        """Let go of the parser, with which this makes a cycle."""
        self.parser = None

    # ---- bodies

    def feed(self) -> None:
        """Parse what the buffer has of the current message's body. Raises: Refusal, from then on each time."""
        try:
            self.feed_part()
        except Refusal as refusal:
            self.fault = refusal
            raise

    def feed_part(self) -> None:
        data = self.buffer
        if self.chunked:
            end = self.end_of_part(data)
        else:
            end = min(self.rest, len(data))
            self.rest -= end
        self.buffer = data[end:]
        received = self.received
        try:
            self.parser.feed_data(data[:end])
        except HttpParserError as error:
            raise self.refusal(error) from None
        if self.chunked:
            self.check_chunks(end - (self.received - received))

    def end_of_part(self, data: bytes) -> int:
        """Return up to where to parse, such that nothing of the next message is among it."""
        joined = self.tail + data
        found = joined.find(END)
        end = len(data) if found < 0 else found + 4 - len(self.tail)
        self.tail = (self.tail + data[:end])[-3:] if found < 0 else b""
        return end

    def check_chunks(self, overhead: int) -> None:
        """Raises: Refusal for a body that is too large, or is mostly something else: extensions, say, or trailers."""
        self.overhead += overhead
        self.check_body(self.received)
        if self.overhead > SLACK + self.received + 16 * self.chunks:
            raise bad("chunks have too much beside data")
