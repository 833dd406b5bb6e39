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
``request_file``.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any
from urllib.parse import unquote_to_bytes

from ..._kernel.extras import missing_extra

try:
    from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser
except ModuleNotFoundError as error:
    raise missing_extra("the server of dhaga.http.wsgi", "serve", error) from None

from ..limits import Limits as Limits
from ..limits import Refusal as Refusal
from ..limits import bad, too_large

HEAD_END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with its trailers."""

REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z-]{1,32}) ([!\"$-~]+) HTTP/1\.([01])\r\n")
"""RFC 9112, 3. One empty line before it is allowed, as old clients send one after a body (2.2).

A target contains no ``#``, and all methods are shorter than 32 letters.
"""

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

CHUNK_OVERHEAD = 16_384
"""Bytes of chunk sizes, extensions and trailers that a body may have beyond a part of its length."""

HOST_PATTERN = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
AUTHORITY_PATTERN = re.compile(r"(?:\[.*\]|[^:]+):[0-9]+")
URL_PATTERN = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://([^/?]+)(.*)")

SINGLETON_FIELDS = {"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"}
"""Fields with a single value. A repeated one is refused: of two values, two programs may choose different ones."""

UNPREFIXED_KEYS = "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"
"""Fields whose keys in WSGI, as in CGI, have no prefix HTTP_."""

CACHE_SIZE = 1024
"""Names and hosts that are cached. Only an attack sends more; further ones are checked each time."""


class RequestParser:
    """Parses one connection's requests. ``buffer``: received, not parsed yet; set by the caller.

    ``complete``: the current message is parsed to its end; ``pieces``: its body as received so far, taken by the
    reader.
    """

    __slots__ = (
        "__weakref__", "buffer", "chunk_left", "chunked", "chunks", "complete", "error", "expects_continue",
        "host_required", "in_trailers", "limits", "line_valid", "overhead", "parser", "persistent", "pieces",
        "received", "remaining", "scanned", "tail",
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
        fields = data[line.end() : -4].decode("latin-1").split("\r\n")
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
        return environ

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
        """Drop the httptools parser, which refers back to this one, a cycle."""
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
        """Join the last pieces, as a reader needs a call for each."""
        last = [self.pieces.pop() for _ in range(count)]
        self.pieces.append(b"".join(reversed(last)))

    def end_of_chunks(self, data: bytes) -> int:
        """Return where the body ends in ``data``, or the length of that. Raises: Refusal for an invalid chunk size."""
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


# ---- a head as a WSGI environ


class EnvironKeys(dict[str, str | None]):
    """The environ key of each field name; None: hidden from the app.

    A name with an underscore would get the same key as the name with a hyphen, and so could imitate a field that a
    proxy in front checks or sets (``X_Forwarded_For``). ``Proxy`` would become HTTP_PROXY, a setting of HTTP clients
    (httpoxy).
    """

    def __missing__(self, name: str) -> str | None:
        upper = name.upper()
        key = f"HTTP_{upper.replace('-', '_')}"
        found = (
            None if "_" in upper or upper == "PROXY" else key.removeprefix("HTTP_") if key in UNPREFIXED_KEYS else key
        )
        if len(self) < CACHE_SIZE:
            self[name] = found
        return found


environ_keys = EnvironKeys()
valid_hosts: set[str] = set()
"""Values of Host that have passed ``check_host``."""


def add_fields(environ: dict[str, Any], lines: list[str]) -> None:
    """Put fields into an environ. Raises: Refusal for a repeated field that must have a single value."""
    for line in lines:
        name, _, value = line.partition(":")
        key = environ_keys[name]
        if key is None:
            continue
        value = value.strip(" \t")
        if key not in environ:
            environ[key] = value
        elif key in SINGLETON_FIELDS:
            raise bad(f"{name} is given twice")
        else:
            environ[key] += ("; " if key == "HTTP_COOKIE" else ", ") + value


def set_target(environ: dict[str, Any], target: str) -> None:
    """Put the request target into an environ: a path, a URL, ``*`` or an authority (RFC 9112, 3.2). Raises: Refusal."""
    environ["REQUEST_URI"] = target
    if target[0] != "/" or environ["REQUEST_METHOD"] == "CONNECT":
        target = path_of_target(environ, target)
    path, _, query = target.partition("?")
    environ["QUERY_STRING"] = query
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if "%" in path else path


def path_of_target(environ: dict[str, Any], target: str) -> str:
    """Return path and query of a target that is not a plain path. Raises: Refusal."""
    method = environ["REQUEST_METHOD"]
    if method == "CONNECT" and AUTHORITY_PATTERN.fullmatch(target):
        check_host(target)
        return ""
    if target == "*" and method == "OPTIONS":
        return ""
    url = URL_PATTERN.fullmatch(target)
    if url is None or method == "CONNECT":
        raise bad("the request target is malformed")
    authority, path = url.groups()
    check_host(authority)
    if "HTTP_HOST" in environ:
        environ["HTTP_HOST"] = authority  # RFC 9112, 3.2.2: it overrides Host
    return path if path.startswith("/") else "/" + path


def check_host(host: str) -> None:
    """Validate a Host header. Raises: Refusal if the host or the port is malformed."""
    if not HOST_PATTERN.fullmatch(host):
        raise bad(f"Host: {host!r}")
    if len(valid_hosts) < CACHE_SIZE:
        valid_hosts.add(host)
