"""The parser of requests for all servers: bytes of a connection go in, WSGI environs and pieces of bodies come out.

httptools (llhttp) parses, strictly by default. httptools accepts some violations of HTTP/1.1, which this module
refuses, each with its reason: a request that two parsers read differently can be smuggled past a proxy.

State: between messages (``complete``) ``head`` looks for a whole head in ``buffer``, and gives it to httptools only
once it is whole; ``feed`` then parses the body, cut so that httptools never sees a byte of the next message. So a
pipelined request stays raw in ``buffer`` while the app works on this one. To find the cut, this module also follows the
sizes of chunks: a mere search for the empty line would stop at each empty line in the data (1 MiB of CRLF: 1.5 s). No
byte is scanned twice: ``scanned`` is the length of a partial head that was searched. ``error`` is sticky: a refused
body stays refused. After an upgrade httptools stops; a fresh parser, fed a synthetic head, continues with the body. One
dhaga feeds a parser at a time. Sockets and time limits: ``connection``. Handlers that read a file feed it line by line:
``request_file``. The environ of a head: ``request_environ``.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from ..._kernel.faces.extras import missing_extra

try:
    from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser
except ModuleNotFoundError as error:
    raise missing_extra("the server of dhaga.http.wsgi", "serve", error) from None

from ..limits import Limits as Limits
from ..limits import Refusal as Refusal
from ..limits import bad, too_large
from .request_environ import add_fields, check_host, set_target, valid_hosts

HEAD_END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with its trailers."""

REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z-]{1,32}) ([!\"$-~]+) HTTP/1\.([01])\r\n")
"""RFC 9112, 3. One empty line before it is allowed: old clients send one after a body (2.2).

A target contains no ``#``, and all methods are shorter than 32 letters.
"""

SLASH = ord("/")
ORDINARY_METHODS = b"GET", b"HEAD"

METHOD_OR_PART = re.compile(rb"(?:\r\n)?[A-Z-]{0,32}(?: |\Z)|\r\Z")
OTHER_VERSION = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1\.[01])[0-9]\.[0-9]\r\n")
LONE_LF = re.compile(rb"(?<!\r)\n")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]+)[^\r\n]*\r\n")
CHUNK_LINE_BYTES = 1024
"""Size of a chunk's line with its extensions; no known client sends extensions."""

LENGTH_DIGITS = 19
"""Digits of a Content-Length, as many as 2**63 has. Further ones are leading zeros; ``int`` refuses 4,300 digits."""

CHUNKS_PER_FEED = 256
"""Chunks that one ``feed`` parses, in 0.3 ms; then the caller may yield. 64 KB hold 11,000 chunks of one byte."""

KNOWN_BYTES = 2048
"""Size of the fields that a parser remembers, at most: an idle connection holds them. Browsers send up to 1 KB."""

UNKNOWABLE_KEYS = "CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_EXPECT", "HTTP_UPGRADE"
"""Fields that decide on the framing: httptools must see each of them."""

CHUNK_OVERHEAD = 16_384
"""Bytes of chunk sizes, extensions and trailers that a body may have beyond a part of its length."""


class RequestParser:
    """Parses one connection's requests. ``buffer``: received, not parsed yet; set by the caller.

    ``complete``: the current message is parsed to its end; ``pieces``: its body as received so far, taken by the
    reader. ``known_block``: the bytes of the fields that the last two requests had in common, and ``known_fields``:
    their part of the environ.
    """

    __slots__ = (
        "__weakref__", "buffer", "chunk_left", "chunked", "chunks", "complete", "error", "expects_continue",
        "host_required", "in_trailers", "known_block", "known_fields", "last_block", "limits", "line_valid", "overhead",
        "parser", "persistent", "pieces", "received", "remaining", "scanned", "tail",
    )  # fmt: skip

    def __init__(self, limits: Limits, host_required: bool = True) -> None:
        self.limits = limits
        self.host_required = host_required
        self.buffer = b""
        self.error: Refusal | None = None
        self.complete = True
        self.persistent = True
        self.expects_continue = False
        self.chunked = False
        self.scanned = 0  # bytes of a partial head already searched
        self.line_valid = False  # its request line is whole and well-formed
        self.last_block = 0  # the hash of the last request's fields
        self.known_block = b""
        self.known_fields: dict[str, Any] = {}
        self.reset_framing()
        self.pieces: deque[bytes] = deque()
        self.parser: Any = HttpRequestParser(self)

    # ---- callbacks of httptools

    def on_body(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.received += len(piece)

    def on_chunk_header(self) -> None:
        self.chunks += 1

    def on_message_complete(self) -> None:
        self.complete = True

    # ---- heads

    def head(self, base: dict[str, Any]) -> dict[str, Any] | None:
        """Parse the head at the beginning of the buffer into a copy of ``base``. Returns: None if it is not whole yet.

        Raises: Refusal.
        """
        data = self.buffer
        end = data.find(HEAD_END, max(0, self.scanned - 3)) + 4
        if end == 3:
            self.check_partial_head(data)
            self.scanned = len(data)
            return None
        self.buffer = data[end:]
        data = data[:end]
        try:
            return self.whole_head(data, base)
        except Refusal:
            self.check_partial_head(data)  # a refusal must not depend on how the bytes were split
            raise
        finally:
            self.scanned, self.line_valid = 0, False

    def whole_head(self, data: bytes, base: dict[str, Any]) -> dict[str, Any]:
        """Parse a whole head into a copy of ``base``. Raises: Refusal."""
        line = REQUEST_LINE.match(data)
        if line is None:
            raise bad("the request line is malformed")
        end = len(data)
        block = data[line.end() :]
        if block == self.known_block and self.is_ordinary(line):
            return self.head_with_known_fields(line, base)
        fields = block[:-4].decode("latin-1").split("\r\n")
        if end > self.limits.line or len(fields) > self.limits.fields:
            self.check_size(data, fields)
        self.complete = self.expects_continue = self.chunked = False
        upgrade = False
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            upgrade = True
        except HttpParserError as error:
            raise self.refusal_for(error) from None
        environ = base.copy()
        method, target, minor = line.groups()
        environ["REQUEST_METHOD"] = method.decode()
        if fields[0]:
            add_fields(environ, fields)
        set_target(environ, target.decode())
        if upgrade:
            self.resume_after_upgrade(environ)
        self.set_framing(environ, minor)
        if method == b"CONNECT":
            self.persistent = False  # no requests follow a tunnel
        if len(block) <= KNOWN_BYTES and self.is_ordinary(line):
            self.learn_fields(block, environ, base)
        return environ

    # ---- heads with the fields of the head before

    def is_ordinary(self, line: re.Match[bytes]) -> bool:
        """Return whether the meaning of the fields is independent of this request line.

        A target that is a URL overrides Host.
        """
        method, target, minor = line.groups()
        short = len(line.string) <= self.limits.line
        return short and target[0] == SLASH and minor == b"1" and method in ORDINARY_METHODS

    def learn_fields(self, block: bytes, environ: dict[str, Any], base: dict[str, Any]) -> None:
        """Remember the fields of a head once a second head repeats them.

        Remembering the first head would be in vain behind a proxy that adds a new field to each request.
        """
        last, self.last_block = self.last_block, hash(block)
        if last != self.last_block or not (self.complete and self.persistent):
            return
        if not any(key in environ for key in UNKNOWABLE_KEYS):
            self.known_block = block
            self.known_fields = {key: value for key, value in environ.items() if key not in base}

    def head_with_known_fields(self, line: re.Match[bytes], base: dict[str, Any]) -> dict[str, Any]:
        """Return the environ of a head whose fields were valid before; it saves 33,000 instructions."""
        self.complete = self.persistent = True
        self.expects_continue = self.chunked = False
        environ = base | self.known_fields
        environ["REQUEST_METHOD"] = line[1].decode()
        set_target(environ, line[2].decode())
        return environ

    # ---- the refusal of heads

    def check_partial_head(self, data: bytes) -> None:
        """Refuse an invalid beginning of a head for its first fault, however much follows. Raises: Refusal."""
        begin = self.scanned
        lone_lf = LONE_LF.search(data, begin)
        fault = lone_lf.start() if lone_lf else len(data)
        if not self.line_valid:
            self.check_request_line(data, begin, fault)
        if fault > self.limits.head:
            raise too_large(f"the head has more than {self.limits.head} bytes")
        if lone_lf:
            raise bad("a line ends in LF without CR")

    def check_request_line(self, data: bytes, begin: int, fault: int) -> None:
        """Refuse a malformed or too long request line that ends before ``fault``. Raises: Refusal."""
        if not METHOD_OR_PART.match(data):
            raise bad("the request line is malformed")
        end = data.find(b"\r\n", max(2, begin - 1), fault)
        if (end if end >= 0 else fault) > self.limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {self.limits.line} bytes")
        if end >= 0:
            if OTHER_VERSION.match(data):
                raise Refusal("505 HTTP Version Not Supported", "the version is neither HTTP/1.0 nor HTTP/1.1")
            if not REQUEST_LINE.match(data):
                raise bad("the request line is malformed")
            self.line_valid = True

    def check_size(self, head: bytes, fields: list[str]) -> None:
        """Raises: Refusal if the head, one of its lines or the number of its fields exceeds the limits."""
        limits = self.limits
        if len(head.removeprefix(b"\r\n").partition(b"\r\n")[0]) > limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {limits.line} bytes")
        if len(head) > limits.head or len(fields) > limits.fields or max(map(len, fields)) > limits.line:
            raise too_large(f"the head has {len(head)} bytes in {len(fields)} fields")

    def refusal_for(self, error: HttpParserError) -> Refusal:
        if isinstance(error, HttpParserInvalidMethodError):
            return Refusal("501 Not Implemented", "the method is unknown")
        return bad(str(error))

    # ---- framing

    def set_framing(self, environ: dict[str, Any], minor: bytes) -> None:
        """Determine the message's length and whether another may follow. Raises: Refusal."""
        if minor == b"1":
            environ["SERVER_PROTOCOL"] = "HTTP/1.1"
            if self.host_required and "HTTP_HOST" not in environ:
                raise bad("Host is missing")
            self.persistent = True
        else:
            environ["SERVER_PROTOCOL"] = "HTTP/1.0"
            self.persistent = False
        host = environ.get("HTTP_HOST", "")
        if host not in valid_hosts:
            check_host(host)
        if "HTTP_CONNECTION" in environ:
            self.set_persistence(environ["HTTP_CONNECTION"].lower(), minor)
        if "HTTP_EXPECT" in environ and minor == b"1":
            self.set_expectation(environ["HTTP_EXPECT"])
        if not self.complete:
            self.set_body_framing(environ, minor)
        elif "HTTP_TRANSFER_ENCODING" in environ:
            raise bad("Transfer-Encoding on a message that can have no body")
        elif "CONTENT_LENGTH" in environ:
            self.length_of(environ)

    def set_persistence(self, options: str, minor: bytes) -> None:
        tokens = [token.strip(" \t") for token in options.split(",")]
        self.persistent = "close" not in tokens and (minor == b"1" or "keep-alive" in tokens)

    def set_expectation(self, expectation: str) -> None:
        if expectation.lower() != "100-continue":
            raise Refusal("417 Expectation Failed", f"Expect: {expectation!r}")
        # A client whose body has begun to arrive does not wait, so that its next bytes are surely the body's.
        self.expects_continue = not self.complete and not self.buffer

    def set_body_framing(self, environ: dict[str, Any], minor: bytes) -> None:
        self.reset_framing()
        coding = environ.get("HTTP_TRANSFER_ENCODING")
        if coding is None:
            self.remaining = self.length_of(environ)
            self.check_body(self.remaining)
            return
        if minor == b"0":
            raise bad("Transfer-Encoding in HTTP/1.0")
        if coding.lower() != "chunked":
            raise Refusal("501 Not Implemented", f"Transfer-Encoding: {coding!r}; only chunked is understood")
        self.chunked = True

    def length_of(self, environ: dict[str, Any]) -> int:
        """Return the Content-Length. Raises: Refusal."""
        digits = environ["CONTENT_LENGTH"]
        if len(digits) > LENGTH_DIGITS:
            raise bad(f"Content-Length has {len(digits)} digits")
        return int(digits)

    def reset_framing(self) -> None:
        """Reset the counts of the previous body."""
        self.received = self.chunks = self.overhead = self.remaining = 0
        self.chunk_left = 0  # bytes of the current chunk still to come, with the CRLF after it
        self.in_trailers = False
        self.tail = b""  # the beginning of a chunk's line, or the last bytes of trailers

    def check_body(self, size: int) -> None:
        limit = self.limits.body
        if limit is not None and size > limit:
            raise Refusal("413 Content Too Large", f"the body has more than {limit} bytes")

    def resume_after_upgrade(self, environ: dict[str, Any]) -> None:
        """Continue after httptools has stopped at an upgrade: the app decides about it, and the body comes first."""
        length, coding = environ.get("CONTENT_LENGTH", "0"), environ.get("HTTP_TRANSFER_ENCODING")
        if environ["REQUEST_METHOD"] == "CONNECT":
            if length != "0" or coding:
                raise bad("CONNECT with a body")
        elif length.strip("0") or coding:
            self.expect_body(f"Transfer-Encoding: {coding}" if coding else f"Content-Length: {length}")

    def begin_body(self, length: int | None) -> None:
        """Expect a body of ``length`` bytes, or in chunks (None), as after a head that announces it."""
        self.reset_framing()
        self.error, self.chunked, self.remaining = None, length is None, length or 0
        self.expect_body("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")

    def expect_body(self, framing: str) -> None:
        """Feed a fresh parser a synthetic head. Raises: Refusal."""
        self.complete = False
        self.parser = HttpRequestParser(self)
        try:
            self.parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode("latin-1"))
        except HttpParserError as error:
            raise self.refusal_for(error) from None

    def close(self) -> None:
        """Drop the httptools parser, which refers back to this object: that is a cycle."""
        self.parser = None

    # ---- bodies

    def feed(self) -> None:
        """Parse the part of the current message's body that is in the buffer.

        Raises: Refusal, and again at each later call.
        """
        try:
            self.feed_body_part()
        except Refusal as refusal:
            self.error = refusal
            raise

    def feed_body_part(self) -> None:
        data = self.buffer
        self.expects_continue = False
        if self.chunked:
            end = self.end_of_chunks(data)
        else:
            end = min(self.remaining, len(data))
            self.remaining -= end
        self.buffer = data[end:]
        received, pieces = self.received, len(self.pieces)
        try:
            self.parser.feed_data(data[:end])
        except HttpParserError as error:
            raise self.refusal_for(error) from None
        if self.chunked:
            if len(self.pieces) > pieces + 1:
                self.join_pieces(len(self.pieces) - pieces)
            self.check_chunks(end - (self.received - received))

    def join_pieces(self, count: int) -> None:
        """Join the last pieces: a reader makes one call for each."""
        last = [self.pieces.pop() for _ in range(count)]
        self.pieces.append(b"".join(reversed(last)))

    def end_of_chunks(self, data: bytes) -> int:
        """Return where the body ends in ``data``; the length of ``data`` if it does not end there. Raises: Refusal for
        an invalid chunk size.
        """
        offset, data = len(self.tail), self.tail + data
        position = 0 if self.in_trailers else self.chunk_left
        for _ in range(0 if self.in_trailers else CHUNKS_PER_FEED):
            if position > len(data):  # within a chunk
                break
            line = CHUNK_SIZE.match(data, position)
            if line is None or line.end() - position > CHUNK_LINE_BYTES:
                self.keep_partial_line(data[position:])
                return len(data) - offset
            size = int(line[1], 16)
            position = line.end() + size + 2
            if size == 0:
                self.in_trailers = True
                position = line.end() - 2
                break
        if not self.in_trailers:
            self.chunk_left, self.tail = max(0, position - len(data)), b""
            return min(position, len(data)) - offset
        end = data.find(HEAD_END, position) + 4
        self.tail = data[max(position, len(data) - 3) :] if end == 3 else b""
        return (len(data) if end == 3 else end) - offset

    def keep_partial_line(self, line: bytes) -> None:
        """Keep the beginning of a chunk's line for the next call. Raises: Refusal if it cannot become a valid one."""
        if len(line) > CHUNK_LINE_BYTES or b"\r\n" in line:
            raise bad("invalid chunk size")
        self.chunk_left, self.tail = 0, line

    def check_chunks(self, overhead: int) -> None:
        """Raises: Refusal for a body that is too large, or consists mostly of chunk extensions or trailers."""
        self.overhead += overhead
        self.check_body(self.received)
        if self.overhead > CHUNK_OVERHEAD + self.received + 16 * self.chunks:
            raise bad("the chunks have too many extensions or trailers")
