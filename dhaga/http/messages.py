"""The requests of one connection: bytes go in, WSGI environs and pieces of bodies come out.

httptools (llhttp) parses; it is strict by default. What it lets through and HTTP/1.1 does not is refused here, each
with its reason: a request that two parsers may read in two ways is how requests are smuggled past a proxy. A head is
given to the parser only when it is whole, and one message at a time, so that nothing of the next request is parsed
while an app works on this one.

Not here: sockets and time-outs (``conversations.py``).
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from typing import Any
from urllib.parse import unquote_to_bytes

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser

END = b"\r\n\r\n"
"""The end of a head, and of a chunked body with its trailers."""

REQUEST_LINE = re.compile(rb"(?:\r\n)?([A-Z-]+) ([!-~]+) HTTP/1\.([01])\r\n")
"""RFC 9112, 3; before it one empty line, which old clients send after a body (2.2), is nothing."""

BEGINNING = re.compile(rb"(?:\r(?:\n[A-Z-]*)?|[A-Z-]*)(?: .*)?", re.DOTALL)
OTHER_VERSION = re.compile(rb"[!-~]+ [!-~]+ HTTP/(?!1\.[01])[0-9]\.[0-9]\r\n")
LONE_LF = re.compile(rb"(?<!\r)\n")
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?#]+)([^#]*)")

ONCE = {"HTTP_HOST", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_TRANSFER_ENCODING"}
"""Fields that say one thing: twice they say two, of which two programs may choose differently."""

SLACK = 16_384
"""Bytes of chunk sizes, extensions and trailers that a body may have beyond what its length explains."""

CACHE = 1024
"""Names and hosts that are remembered; beyond, as only an attack has, each is looked at anew."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much a client may send, in bytes and fields, and how long each step may take, in seconds (None: for ever)."""

    line: int = 8192
    """A request line or a field. RFC 9112, 3: at least 8000 for a request line. Larger: 414, 431."""
    head: int = 65_536
    """All lines together: as much as one ``recv`` brings. Browsers send some 1 KB, and cookies of 4 KB each."""
    fields: int = 100
    """What Apache allows, too; each costs time, however short."""
    body: int | None = None
    """A request's body. None, as it is streamed: the server holds 64 KB of it, and the app knows what it expects."""
    idle_timeout: float | None = 75.0
    """Between two requests. Proxies drop idle connections after 60 s mostly; whoever keeps them longer does not meet
    a request that is on its way."""
    header_timeout: float | None = 20.0
    """From the first byte of a head to its last: some round trips of a bad mobile network. Then 408."""
    body_timeout: float | None = 30.0
    """For each piece of a body, of any size. Then 408."""
    write_timeout: float | None = 60.0
    """For each piece of a response, of 64 KB, until the client's system has taken it. Then the connection is cut."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("line", "head", "fields"):
                raise ValueError(f"{field.name} must be a number: a head without bounds would fill the memory")
            if value is not None and not value > 0:
                raise ValueError(f"{field.name} must be above 0, or None for no limit, not {value!r}")


class Refusal(OSError):
    """A request that is not served: ``status`` says so to the client, the text to the log. The connection ends."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


def bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", why)


class Keys(dict[bytes, str | None]):
    """The environ's key of each field name; None: not for the app.

    A name with an underscore would get the key of the one with a hyphen, and so pass for a field that a proxy in front
    checks or sets (``X_Forwarded_For``). ``Proxy`` would become HTTP_PROXY, which clients take for a setting (httpoxy).
    """

    def __missing__(self, name: bytes) -> str | None:
        text = name.decode("latin-1").upper()
        key = f"HTTP_{text.replace('-', '_')}"
        found = None if "_" in text or text == "PROXY" else key.removeprefix("HTTP_") if key in BARE else key
        if len(self) < CACHE:
            self[name] = found
        return found


BARE = "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH"
keys = Keys()
hosts: set[str] = set()


class Sink(dict[Any, Any]):
    """Where fields go that come after a body: nowhere. Nothing in WSGI would tell an app of them."""

    def __setitem__(self, key: object, value: object) -> None:
        pass


SINK = Sink()


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
        "environ",
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
        self.environ: dict[Any, Any] = SINK
        self.fault: Refusal | None = None
        self.complete = True
        self.persistent = True
        self.expects = False
        self.chunked = False
        self.chunks = self.overhead = self.received = self.rest = 0
        self.tail = b""
        self.pieces: deque[bytes] = deque()
        self.parser = HttpRequestParser(self)

    # ---- what the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head, or a trailer."""
        key = keys[name]
        if key is None:
            return
        environ = self.environ
        if key in environ:
            self.repeat(key, value)
        else:
            environ[key] = value.decode("latin-1").rstrip()

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
        if end > 400:
            self.check_size(data[:end])
        self.environ = environ = base.copy()
        method, target, minor = line.groups()
        environ["REQUEST_METHOD"] = method.decode()
        self.complete = self.expects = self.chunked = False
        if end == len(data):
            self.buffer = b""
        else:
            self.buffer = data[end:]
            data = data[:end]
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:
            self.resume(environ)
        except HttpParserError as error:
            raise self.refusal(error) from None
        if self.fault is not None:
            raise self.fault
        self.environ = SINK
        take_target(environ, method, target)
        self.take_framing(environ, minor)
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

    def check_size(self, head: bytes) -> None:
        """Raises: Refusal for a head that is too large in itself, in a line or in the number of its fields."""
        limits = self.limits
        first, *fields = head[:-4].removeprefix(b"\r\n").split(b"\r\n")
        if len(first) > limits.line:
            raise Refusal("414 URI Too Long", f"the request line has more than {limits.line} bytes")
        if len(head) > limits.head or len(head) > limits.line < max(map(len, fields)) or len(fields) > limits.fields:
            raise too_large(f"the head has {len(head)} bytes in {len(fields)} fields")

    def repeat(self, key: str, value: bytes) -> None:
        """Join a field to that of the same name before it, if it is of a kind that may come more than once."""
        if key in ONCE:
            self.fault = bad(f"{key.removeprefix('HTTP_').replace('_', '-').title()} is given twice")
        joint = "; " if key == "HTTP_COOKIE" else ", "
        self.environ[key] += joint + value.decode("latin-1").rstrip()

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
            self.environ = SINK
            self.parser = HttpRequestParser(self)
            self.parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode("latin-1"))

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


def too_large(why: str) -> Refusal:
    return Refusal("431 Request Header Fields Too Large", why)


def check_host(host: str) -> None:
    if not HOST.fullmatch(host):
        raise bad(f"Host: {host!r}")
    if len(hosts) < CACHE:
        hosts.add(host)


def take_target(environ: dict[str, Any], method: bytes, target: bytes) -> None:
    """Put the request target into an environ: a path, a URL, ``*`` or an authority (RFC 9112, 3.2). Raises: Refusal."""
    environ["REQUEST_URI"] = target.decode()
    if target[0] != 47:  # not a path
        target = path_of(environ, method, target)
    elif b"#" in target or method == b"CONNECT":
        raise bad("the request target is malformed")
    path, _, query = target.partition(b"?")
    environ["QUERY_STRING"] = query.decode()
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1") if b"%" in path else path.decode()


def path_of(environ: dict[str, Any], method: bytes, target: bytes) -> bytes:
    """Return the path and query of a target that is not just these. Raises: Refusal."""
    url = ABSOLUTE.fullmatch(target)
    if method == b"CONNECT":
        if not re.fullmatch(r"[^:]+:[0-9]+|\[.*\]:[0-9]+", target.decode()):
            raise bad("CONNECT without host and port")
        check_host(target.decode())
        return b""
    if target == b"*" and method == b"OPTIONS":
        return b""
    if url is None:
        raise bad("the request target is malformed")
    authority = url[1].decode()
    check_host(authority)
    if "HTTP_HOST" in environ:
        environ["HTTP_HOST"] = authority  # RFC 9112, 3.2.2: it counts instead of Host
    path = url[2]
    return path if path.startswith(b"/") else b"/" + path
