"""The request parser of all HTTP servers: it turns a connection's bytes into WSGI environs and pieces of bodies.

The library httptools (llhttp) parses strictly by default, but accepts some violations of HTTP/1.1. This module refuses
these, because a request that two parsers read differently can be smuggled past a proxy.

Between two messages, ``complete`` is true, and ``head`` searches ``buffer`` for a whole head. ``scanned`` is the length
of the part already searched, so that no byte is searched twice. The httptools parser gets only whole heads, and in
``feed`` the bytes of the current body. A pipelined request remains in ``buffer`` while the app works on the previous
request. ``chunk_sizes`` finds the end of a chunked body. Once ``error`` is set, the rest of the body is refused. An
httptools parser stops at an upgrade. A second parser then gets a synthetic head and the body.

Only one dhaga at a time feeds a parser. ``connection`` has the sockets and time limits, ``request_environ`` makes the
environ, and ``request_file`` feeds a parser from a file.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from ..._kernel.faces.extras import missing_extra
from ..._kernel.fast.compiled import compiled

try:
    from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser
except ModuleNotFoundError as error:
    raise missing_extra("the server of dhaga.http.wsgi", "serve", error) from None

from ..limits import Limits as Limits
from ..limits import Refusal as Refusal
from ..limits import bad, too_large
from .chunk_sizes import HEAD_END, ChunkSizes
from .request_environ import add_fields, check_host, set_target, valid_hosts

REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z-]{1,32}) ([!\"$-~]+) HTTP/1\.([01])\r\n")
"""The request line (RFC 9112, section 3), after at most one empty line: old clients send an empty line after a body
(2.2).

A target contains no ``#``, and all methods are shorter than 32 letters.
"""

ORDINARY_LINE = re.compile(rb"(GET|HEAD) (/[!\"$-~]*) HTTP/1\.1\r\n")
"""Request lines that do not change the meaning of the fields. A target that is a URL would override Host."""

METHOD_OR_PART = re.compile(rb"(?:\r\n)?[A-Z-]{0,32}(?: |\Z)|\r\Z")
OTHER_VERSION = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1\.[01])[0-9]\.[0-9]\r\n")
LONE_LF = re.compile(rb"(?<!\r)\n")

LENGTH_DIGITS = 19
"""Maximum number of digits of a Content-Length, enough for 2**63. ``int`` would raise ValueError above 4,300 digits."""

KNOWN_BYTES = 2048
"""Maximum size of the fields that a parser keeps, even while its connection is idle. Browsers send up to 1 KB."""

UNKNOWABLE_KEYS = "CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_EXPECT", "HTTP_UPGRADE"
"""Keys of the fields that affect the framing. The httptools parser must get each head with such a field."""

CHUNK_OVERHEAD = 16_384
"""Maximum bytes of chunk sizes, extensions and trailers in a body without data. Other bodies may have more."""


class RequestParser:
    """A parser of one connection's requests.

    ``buffer``: bytes received but not parsed yet, set by the caller.
    ``complete``: whether the current message is parsed to its end.
    ``pieces``: pieces of the current body that the app has not read yet.
    ``known_block``: the bytes of all fields of the last head whose predecessor had the same fields; b"" before the
    first such head. ``known_fields``: the keys and values of these fields in the environ.
    """

    __slots__ = (
        "__weakref__", "buffer", "chunk_sizes", "chunks", "complete", "error", "expects_continue", "host_required",
        "known_block", "known_fields", "last_block", "limits", "line_valid", "overhead", "parser", "persistent",
        "pieces", "received", "remaining", "scanned",
    )  # fmt: skip

    def __init__(self, limits: Limits, host_required: bool = True) -> None:
        self.limits = limits
        self.host_required = host_required
        self.buffer = b""
        self.error: Refusal | None = None
        self.complete = True
        self.persistent = True
        self.expects_continue = False
        self.chunk_sizes: ChunkSizes | None = None
        self.scanned = 0  # length of the part of a head that was searched
        self.line_valid = False  # the head's request line is whole and well-formed
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

    @compiled  # in C only for GET and HEAD with the known fields and a path without escapes
    def head(self, base: dict[str, Any]) -> dict[str, Any] | None:
        """Parse the head at the beginning of the buffer into a copy of ``base``. Raises: Refusal.

        Returns: the environ, or None if the head is not whole yet.
        """
        data = self.buffer
        if self.known_block:
            line = ORDINARY_LINE.match(data)
            if line is not None and data.startswith(self.known_block, line.end()):
                end = line.end() + len(self.known_block)
                if end <= self.limits.line:
                    self.buffer = data[end:]
                    return self.head_with_known_fields(line, base)
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
            self.check_partial_head(data)  # the refusal must not depend on how the bytes are split into reads
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
        fields = block[:-4].decode("latin-1").split("\r\n")
        if end > self.limits.line or len(fields) > self.limits.fields:
            self.check_size(data, fields)
        self.complete = self.expects_continue = False
        self.chunk_sizes = None
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
        if len(block) <= KNOWN_BYTES:
            self.learn_fields(line, block, environ, base)
        return environ

    # ---- framing

    def set_framing(self, environ: dict[str, Any], minor: bytes) -> None:
        """Determine the length of the body, and whether another request may follow. Raises: Refusal."""
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
        # Bytes after the head certainly belong to the body: their client does not wait for 100 Continue.
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
        self.chunk_sizes = ChunkSizes()

    def length_of(self, environ: dict[str, Any]) -> int:
        """Return the Content-Length. Raises: Refusal."""
        digits = environ["CONTENT_LENGTH"]
        if len(digits) > LENGTH_DIGITS:
            raise bad(f"Content-Length has {len(digits)} digits")
        return int(digits)

    def reset_framing(self) -> None:
        """Reset the counters of the previous body."""
        self.received = self.chunks = self.overhead = self.remaining = 0

    def check_body(self, size: int) -> None:
        limit = self.limits.body
        if limit is not None and size > limit:
            raise Refusal("413 Content Too Large", f"the body has more than {limit} bytes")

    def resume_after_upgrade(self, environ: dict[str, Any]) -> None:
        """Prepare for the body, because httptools stops at an upgrade. The app upgrades only after the body."""
        length, coding = environ.get("CONTENT_LENGTH", "0"), environ.get("HTTP_TRANSFER_ENCODING")
        if environ["REQUEST_METHOD"] == "CONNECT":
            if length != "0" or coding:
                raise bad("CONNECT with a body")
        elif length.strip("0") or coding:
            self.expect_body(f"Transfer-Encoding: {coding}" if coding else f"Content-Length: {length}")

    def begin_body(self, length: int | None) -> None:
        """Expect a body of ``length`` bytes, or a body of chunks (None), as if a head had announced the body."""
        self.reset_framing()
        self.error, self.remaining = None, length or 0
        self.chunk_sizes = ChunkSizes() if length is None else None
        self.expect_body("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")

    def expect_body(self, framing: str) -> None:
        """Create an httptools parser, and feed it a synthetic head. Raises: Refusal."""
        self.complete = False
        self.parser = HttpRequestParser(self)
        try:
            self.parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode("latin-1"))
        except HttpParserError as error:
            raise self.refusal_for(error) from None

    def close(self) -> None:
        """Drop the httptools parser, which forms a reference cycle with this object."""
        self.parser = None

    # ---- heads with the fields of the previous head

    def learn_fields(self, line: re.Match[bytes], block: bytes, environ: dict[str, Any], base: dict[str, Any]) -> None:
        """Keep the fields of a head if the previous head had the same fields.

        Keeping the fields of every head would be useless behind a proxy that adds a new value to each request.
        """
        last, self.last_block = self.last_block, hash(block)
        if last != self.last_block or not (self.complete and self.persistent):
            return
        if ORDINARY_LINE.fullmatch(line[0]) and not any(key in environ for key in UNKNOWABLE_KEYS):
            self.known_block = block
            self.known_fields = {key: value for key, value in environ.items() if key not in base}

    def head_with_known_fields(self, line: re.Match[bytes], base: dict[str, Any]) -> dict[str, Any]:
        """Return the environ of a head with the known fields. This avoids 38,000 machine instructions of parsing."""
        self.complete = self.persistent = True
        self.expects_continue = self.line_valid = False
        self.chunk_sizes = None
        self.scanned = 0
        method, target = line.groups()
        environ = base | self.known_fields
        environ["REQUEST_METHOD"] = method.decode()
        environ["SERVER_PROTOCOL"] = "HTTP/1.1"
        set_target(environ, target.decode())
        return environ

    # ---- bodies

    def feed(self) -> None:
        """Parse the part of the current body that is in the buffer. Raises: Refusal, also kept in ``error``."""
        try:
            self.feed_body_part()
        except Refusal as refusal:
            self.error, self.complete = refusal, False  # a body refused at its last byte is not complete either
            raise

    def feed_body_part(self) -> None:
        data = self.buffer
        self.expects_continue = False
        sizes = self.chunk_sizes
        if sizes is not None:
            end = sizes.end_of_part(data)
        else:
            end = min(self.remaining, len(data))
            self.remaining -= end
        self.buffer = data[end:]
        received, pieces = self.received, len(self.pieces)
        try:
            self.parser.feed_data(data[:end])
        except HttpParserError as error:
            raise self.refusal_for(error) from None
        if sizes is not None:
            if len(self.pieces) > pieces + 1:
                self.join_pieces(len(self.pieces) - pieces)
            self.check_chunks(end - (self.received - received))

    def join_pieces(self, count: int) -> None:
        """Join the last ``count`` pieces, because a reader makes one call per piece."""
        last = [self.pieces.pop() for _ in range(count)]
        self.pieces.append(b"".join(reversed(last)))

    def check_chunks(self, overhead: int) -> None:
        """Check a body's size. Raises: Refusal for a body that is too large or has too many extensions or trailers."""
        self.overhead += overhead
        self.check_body(self.received)
        if self.overhead > CHUNK_OVERHEAD + self.received + 16 * self.chunks:
            raise bad("the chunks have too many extensions or trailers")

    # ---- the refusal of heads

    def check_partial_head(self, data: bytes) -> None:
        """Refuse an invalid beginning of a head, with the status for its first fault. Raises: Refusal."""
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
        """Refuse a request line that is malformed or too long before the position ``fault``. Raises: Refusal."""
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
        """Check the sizes of a head and its lines, and the number of fields. Raises: Refusal above a limit."""
        limits = self.limits
        if len(head.removeprefix(b"\r\n").partition(b"\r\n")[0]) > limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {limits.line} bytes")
        if len(head) > limits.head or len(fields) > limits.fields or max(map(len, fields)) > limits.line:
            raise too_large(f"the head has {len(head)} bytes in {len(fields)} fields")

    def refusal_for(self, error: HttpParserError) -> Refusal:
        if isinstance(error, HttpParserInvalidMethodError):
            return Refusal("501 Not Implemented", "the method is unknown")
        return bad(str(error))
