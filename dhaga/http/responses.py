"""The response to one request: ``start_response``, and what an app returns, made into bytes of HTTP/1.1 (PEP 3333).

Not here: time-outs and the socket (``conversations.py``), of which this needs ``send`` and ``send_file`` alone.
"""

from __future__ import annotations

import io
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.utils import formatdate
from typing import Any, Protocol

logger = logging.getLogger("dhaga")

CACHE = 1024
"""Names and statuses that are remembered: an app has a few dozen."""

JOIN = 65_536
"""Up to here a body is joined to its head: one system call less is worth the copy."""

BLOCK = 65_536
"""Bytes that a file wrapper reads at once where the kernel cannot send the file itself."""

TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
STATUS = re.compile(r"[2-9][0-9][0-9] [^\0-\x1f\x7f]*(?<! )")

LENGTH_LINE = re.compile("(?i:content-length): [0-9]+\r\n")
BODILESS = "204", "304"
"""Statuses without a body (RFC 9110, 6.4.1); the first must not even have a Content-Length (8.6)."""

ORDINARY, LENGTH, DATE, SERVER = range(4)
SPECIAL = {"content-length": LENGTH, "date": DATE, "server": SERVER}
HOP_BY_HOP = {
    *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization"),
    *("te", "trailer", "trailers", "transfer-encoding", "upgrade"),
}


class AppError(RuntimeError):
    """The app has broken a rule of WSGI; the text says which."""


class Names(dict[str, int]):
    """What is to be done about a field of each name: ORDINARY ones are sent as they are. Raises: AppError."""

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise AppError(f"{name!r} is no name of a header field: letters, digits and hyphens make one")
        lower = name.lower()
        if lower in HOP_BY_HOP:
            raise AppError(f"{name} is for the server to send: PEP 3333 forbids it to apps, as all hop-by-hop fields")
        kind = SPECIAL.get(lower, ORDINARY)
        if len(self) < CACHE:
            self[name] = kind
        return kind


class Statuses(dict[str, str]):
    """The first line for each status. Raises: AppError."""

    def __missing__(self, status: str) -> str:
        if not isinstance(status, str) or not STATUS.fullmatch(status):
            raise AppError(f"{status!r} is no status: a str such as '200 OK', from 200 on")
        line = f"HTTP/1.1 {status}"
        if len(self) < CACHE:
            self[status] = line
        return line


names = Names()
statuses = Statuses()


class Stamp:
    """The Server and Date fields, made anew each second (RFC 9110, 6.6.1: a server with a clock sends Date)."""

    __slots__ = ("both", "date", "server", "until")

    def __init__(self, software: str) -> None:
        self.server = f"Server: {software}\r\n"
        self.both = self.date = ""
        self.until = 0.0

    def fields(self, given: Sequence[int]) -> str:
        """Return the two lines, without those that the app has given."""
        now = time.time()
        if now >= self.until or now < self.until - 1:
            self.until = int(now) + 1.0
            self.date = f"Date: {formatdate(now, usegmt=True)}\r\n"
            self.both = self.server + self.date
        if not given:
            return self.both
        return ("" if SERVER in given else self.server) + ("" if DATE in given else self.date)


class FileWrapper:
    """``wsgi.file_wrapper``: a file to be sent, by the kernel itself where it can (PEP 3333, optional part)."""

    def __init__(self, filelike: Any, blksize: int = BLOCK) -> None:
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        block: bytes = self.filelike.read(self.blksize)
        if not block:
            raise StopIteration
        return block

    def left(self) -> tuple[int, int] | None:
        """Return the position in a regular file, and the bytes from there on; None for whatever else.

        Some files of the system say that they are empty, and are not (/proc): those are read, too.
        """
        try:
            state = os.fstat(self.filelike.fileno())
            position = self.filelike.tell()
        except (AttributeError, OSError, io.UnsupportedOperation):
            return None
        size = state.st_size - position
        return (position, size) if stat.S_ISREG(state.st_mode) and size > 0 else None


class Outlet(Protocol):
    """Where a response goes: the conversation."""

    stamp: Stamp

    def send(self, data: bytes, /) -> None: ...

    def send_file(self, file: Any, offset: int, count: int, /) -> int: ...

    def persists(self) -> bool:
        """Tell whether the connection is to go on after this response; asked when its head is sent."""

    def end(self) -> None:
        """Have no request follow this one."""


class Over:
    """The outlet of a response that has ended: what still has its ``write`` must not write into the next one."""

    def send(self, data: bytes) -> None:
        raise AppError("the response has ended with its request: nothing can be written to it any more")


OVER: Any = Over()


class Response:
    """One response, from ``start`` (which the app calls as ``start_response``) to its last byte.

    ``lines`` and ``length`` are what the app has asked for; ``sent``: the head is out; ``left``: bytes still to come
    by Content-Length; ``size``: bytes of the body so far.
    """

    __slots__ = ("chunked", "given", "left", "length", "lines", "mute", "outlet", "sent", "size", "status", "version")

    def __init__(self, outlet: Outlet, method: str, version: str) -> None:
        self.outlet = outlet
        self.version = version
        self.mute = method == "HEAD"
        self.status = ""
        self.lines = ""
        self.given: Sequence[int] = ()
        self.length: int | None = None
        self.left: int | None = None
        self.sent = self.chunked = False
        self.size = 0

    # ---- what the app calls

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /) -> Callable[[bytes], object]:
        """Take status and fields: WSGI's ``start_response``. Returns: ``write``. Raises: AppError, or exc_info."""
        if self.status or self.sent:
            self.start_again(exc_info)
        lines = [statuses[status]]
        given: list[int] = []
        length = None
        for name, value in headers:
            kind = names[name]
            if kind == LENGTH:
                length = length_of(value, length)
            elif kind:
                given.append(kind)
            lines.append(name + ": " + value)
        text = "".join(lines)
        if not (text.isascii() and text.isprintable()):
            check_lines(lines)
        lines.append("")
        self.lines, self.given, self.length = "\r\n".join(lines), given, length
        self.status = status
        return self.write

    def start_again(self, exc_info: Any) -> None:
        if exc_info is None:
            raise AppError("start_response was called before; a second call is for errors and takes exc_info")
        try:
            if self.sent:
                raise exc_info[1].with_traceback(exc_info[2])
        finally:
            exc_info = None  # its traceback leads to this frame: that would be a cycle

    def write(self, data: bytes, /) -> None:
        """Send a piece of the body now. Parks: while the client does not take it. Raises: OSError, AppError."""
        if data.__class__ is not bytes:
            check_bytes(data)
        if not self.status:
            raise AppError("the app gives a body before it has called start_response")
        if not self.sent:
            self.send_first(data)
        elif data:
            self.send_more(data)

    # ---- sending

    def send_first(self, data: bytes) -> None:
        """Send the head, and with it the first piece of the body."""
        head = self.head(self.length)
        if data:
            data = self.framed(data)
        self.sent = True
        if len(data) > JOIN:
            self.outlet.send(head)
            self.outlet.send(data)
        else:
            self.outlet.send(head + data)

    def send_more(self, data: bytes) -> None:
        data = self.framed(data)
        if data:
            self.outlet.send(data)

    def framed(self, data: bytes) -> bytes:
        """Return a piece as it goes over the wire."""
        if self.left is not None:
            data = self.within_length(data)
        self.size += len(data)
        if self.mute:
            self.size = 0
            return b""
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def within_length(self, data: bytes) -> bytes:
        """Count a piece; what is beyond Content-Length is cut off, once with a log entry."""
        left = self.left
        assert left is not None
        if len(data) > left:
            if not self.mute and left >= 0:
                logger.error("the app gives more than its Content-Length, %s; the rest is cut off", self.length)
            data = data[: max(0, left)]
            self.left = -1
        else:
            self.left = left - len(data)
        return data

    def head(self, length: int | None, whole: bool = False) -> bytes:
        """Return the head's bytes, and settle how the body is framed; ``whole``: ``length`` was found, not given."""
        lines = self.lines
        if self.status.startswith(BODILESS):
            self.mute = True
            if length is not None and self.status.startswith("204"):
                lines = LENGTH_LINE.sub("", lines)
        elif length is not None:
            if whole:
                lines += f"Content-Length: {length}\r\n"
            self.left = length
        elif not self.mute:
            if self.version == "HTTP/1.1":
                self.chunked = True
                lines += "Transfer-Encoding: chunked\r\n"
            else:
                self.outlet.end()
        if not self.outlet.persists():
            lines += "Connection: close\r\n"
        elif self.version == "HTTP/1.0":
            lines += "Connection: keep-alive\r\n"
        return (lines + self.outlet.stamp.fields(self.given) + "\r\n").encode("latin-1")

    # ---- what the app returns

    def send_all(self, result: Iterable[bytes]) -> None:
        """Send what the app has returned, piece by piece. Parks: as ``write``. Raises: what the app raises."""
        if result.__class__ is list and len(result) == 1 and not self.sent and self.status:
            self.send_whole(result[0])
            return
        if isinstance(result, FileWrapper):
            if self.send_file(result):
                return
        elif not self.sent and self.status and self.length is None and count_of(result) == 1:
            self.send_whole(next(iter(result)))
            return
        for piece in result:
            if piece or piece.__class__ is not bytes:
                self.write(piece)
        self.finish()

    def send_whole(self, data: bytes) -> None:
        """Send a response whose body is one piece, with its length."""
        if data.__class__ is not bytes:
            check_bytes(data)
        size = len(data)
        if self.length is not None and self.length != size:
            self.send_first(data)
            self.finish()
            return
        head = self.head(size, whole=self.length is None)
        self.sent = True
        self.left = None
        if self.mute:
            data, size = b"", 0
        self.size = size
        if size > JOIN:
            self.outlet.send(head)
            self.outlet.send(data)
        else:
            self.outlet.send(head + data)

    def send_file(self, wrapper: FileWrapper) -> bool:
        """Send a regular file; False if it is none."""
        found = wrapper.left()
        if found is None or not self.status or self.sent:
            return False
        position, size = found
        count = size if self.length is None else min(size, self.length)
        head = self.head(count if self.length is None else self.length, whole=self.length is None)
        self.sent = True
        self.outlet.send(head)
        if not self.mute:
            self.size = self.outlet.send_file(wrapper.filelike, position, count)
            self.left = (self.left or 0) - self.size
        self.finish()
        return True

    def finish(self) -> None:
        """Send the end of the body. An app that has given less than its Content-Length loses the connection."""
        if not self.status:
            raise AppError("the app has returned without a call of start_response")
        if not self.sent:
            if self.length is None and not self.mute:
                self.send_whole(b"")
                return
            self.send_first(b"")
        if self.chunked:
            self.outlet.send(b"0\r\n\r\n")
        elif self.left and self.left > 0 and not self.mute:
            self.outlet.end()
            logger.error("the app gives %s bytes less than its Content-Length, %s", self.left, self.length)


def length_of(value: str, former: int | None) -> int:
    """Return a Content-Length. Raises: AppError."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        raise AppError(f"Content-Length: {value!r} is no number of bytes, as a str of digits")
    length = int(value)
    if former is not None and former != length:
        raise AppError(f"Content-Length: {former} and {length} at once")
    return length


def count_of(result: Any) -> int:
    """Return how many pieces a result has, if it says so; PEP 3333 has its length then found from the only one."""
    try:
        return len(result)
    except Exception:
        return -1


def check_lines(lines: list[str]) -> None:
    """Raises: AppError for a value that would break out of its line, or cannot be sent."""
    for line in lines:
        if any(control in line for control in "\r\n\0"):
            raise AppError(f"CR, LF or NUL in a header field: {line!r}")
        try:
            line.encode("latin-1")
        except UnicodeEncodeError:
            raise AppError(f"a header field is of Latin-1 characters (PEP 3333), not {line!r}") from None


def check_bytes(data: object) -> None:
    if not isinstance(data, bytes):
        raise AppError(f"a body is made of bytes, not of {type(data).__name__}")
