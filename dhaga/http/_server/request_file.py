"""Heads and bodies of requests, read from a file that a request handler of ``dhaga.compat`` exposes to the program.

Reading stops at the end of a message. The program can then read the next request, or the data of an upgraded
connection. This module decides how many bytes to read from the file, and ``request_parser`` parses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._kernel.run.turn_budget import yield_if_due
from ..limits import Limits, Refusal, bad, too_large

if TYPE_CHECKING:
    from .request_parser import RequestParser

Edit = Callable[[list[bytes]], list[bytes]]

LINE_BYTES = 8192
"""Maximum size of a trailer. The parser also limits all trailers together, and the size line of each chunk."""

DATA_BYTES = 65_536
"""Maximum bytes of data per read, equal to ``timed_transfers.RECEIVE_BYTES``."""


class LineTooLong(Refusal):
    """The refusal of a head that has a line longer than the limit."""


def new_parser(limits: Limits) -> RequestParser:
    """Return a new parser. Raises: ModuleNotFoundError if httptools, an optional dependency, is not installed."""
    from .request_parser import RequestParser  # imported here, because compat must not require httptools

    return RequestParser(limits, host_required=False)


def environ_key(name: str) -> str | None:
    """Return the environ key of a field, or None if the field is hidden from the app."""
    from .request_environ import environ_keys

    return environ_keys[name]


class FileHead:
    """The head of a request. The caller has read the request line, and the rest is read from the file.

    ``edit``: a function that changes the head's lines before they are parsed.
    ``fields``: pairs of name and value, in order.
    ``length``: the body's size in bytes, or None if the body consists of chunks.
    ``persistent``: whether another request may follow.
    ``expects_continue``: whether the client waits for 100 Continue.

    Host may be missing, as with gevent and eventlet. Parks: as the file does. Raises: Refusal; OSError if the client
    disconnects before the head's end.
    """

    def __init__(self, file: Any, request_line: bytes, limits: Limits, edit: Edit = list) -> None:
        if request_line == b"\r\n":  # the caller has already skipped one empty line
            raise bad("the request line is malformed")
        parser = new_parser(limits)
        parser.buffer = request_line
        parser.head({})  # refuse a malformed request line before the rest arrives
        lines = edit([request_line, *read_lines(file, limits)])
        parser.buffer = b"".join(lines)
        parser.head({})
        pairs = (line[:-2].decode("latin-1").partition(":") for line in lines[1:-1])
        self.fields: list[tuple[str, str]] = [(name, value.strip(" \t")) for name, _, value in pairs]
        self.length: int | None = 0 if parser.complete else None if parser.chunk_sizes else parser.remaining
        self.persistent: bool = parser.persistent
        self.expects_continue: bool = parser.expects_continue
        parser.close()


def read_lines(file: Any, limits: Limits) -> list[bytes]:
    """Read the lines of the fields, including the empty line at the end. Parks, raises: as ``FileHead`` does."""
    lines: list[bytes] = []
    size = 0
    while not lines or lines[-1] != b"\r\n":
        line = file.readline(limits.line + 3)
        size += len(line)
        if len(line) > limits.line + 2:
            raise LineTooLong(too_large("").status, f"a field has more than {limits.line} bytes")
        if size > limits.head or len(lines) + (line != b"\r\n") > limits.fields:
            raise too_large(f"the head has {size} bytes in {len(lines)} fields")
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the client disconnected in the middle of a head")
        if not line.endswith(b"\r\n"):
            raise bad("a line ends in LF without CR")
        lines.append(line)
    return lines


class FileBody:
    """The body of one request. ``length``: its size in bytes, or None if it consists of chunks.

    Parks: as the file does. Raises: Refusal; OSError if the client disconnects before the body's end.
    """

    def __init__(self, file: Any, length: int | None) -> None:
        self.file = file
        self.parser = new_parser(Limits())
        self.parser.begin_body(length)

    @property
    def at_end(self) -> bool:
        """True once the body is parsed to its end."""
        return self.parser.complete

    @property
    def left(self) -> int:
        """The number of bytes that certainly follow: the rest of the body, or of the current chunk."""
        sizes = self.parser.chunk_sizes
        return max(0, sizes.left - 2) if sizes else self.parser.remaining

    def read(self, limit: int, whole_line: bool = False) -> bytes:
        """Return 1 to ``limit`` bytes, or b"" at the body's end. ``whole_line``: stop at the end of a line."""
        parser = self.parser
        if parser.error is not None:
            raise parser.error
        while not parser.complete:
            try:
                parser.buffer = data = self.next_bytes(limit, whole_line)
            except BaseException:
                # For example, a Timeout of the app. The file drops what it has received, so the body's end is unknown.
                parser.error = bad("a read of the body was cancelled or has failed")
                raise
            if not data:
                raise ConnectionResetError("the client disconnected in the middle of a body")
            if len(data) == LINE_BYTES and not self.left and not data.endswith(b"\n"):
                parser.error = bad("a line of the body is too long")
                raise parser.error
            yield_if_due()  # parsing many small chunks of a buffered file takes longer than one turn
            parser.feed()
            if parser.complete:
                parser.close()
            if parser.pieces:
                piece = b"".join(parser.pieces)
                parser.pieces.clear()
                return piece
        return b""

    def next_bytes(self, limit: int, whole_line: bool) -> bytes:
        """Read bytes that certainly belong to this body: data, the CRLF after a chunk, a size line, or a trailer."""
        sizes, file = self.parser.chunk_sizes, self.file
        size = self.left
        if size:
            size = min(size, limit, DATA_BYTES)
            return file.readline(size) if whole_line else file.read(size)  # type: ignore[no-any-return]
        return file.read(sizes.left) if sizes and sizes.left else file.readline(LINE_BYTES)  # type: ignore[no-any-return]
