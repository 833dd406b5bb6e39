"""Requests read from a file with ``request_parser``, for handlers that expose the file: those of ``dhaga.compat``.

No byte beyond the message is read, so that the file stays at the next request, or at the first byte of an upgraded
connection. ``request_parser`` parses; this module decides how many bytes to read from the file.
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
"""Bytes of a trailer. The parser bounds all trailers together, and has a lower limit for a chunk's line."""

DATA_BYTES = 65_536
"""Bytes of data per read, as in ``connection``."""


class LineTooLong(Refusal):
    """A line of a head has more bytes than the limit."""


def new_parser(limits: Limits) -> RequestParser:
    """Return a parser. Raises: ModuleNotFoundError without httptools, an optional dependency."""
    from .request_parser import RequestParser  # here, so that the modules of compat are imported without it

    return RequestParser(limits, host_required=False)


def environ_key(name: str) -> str | None:
    """Return the key of a field in the environ; None if it is hidden from the app."""
    from .request_environ import environ_keys

    return environ_keys[name]


class FileHead:
    """A head after its request line. ``edit``: changes the lines before they are parsed.

    ``fields``: pairs of name and value, in order; ``length``: bytes of the body, None: in chunks; ``persistent``:
    another request may follow; ``expects_continue``: the client waits for 100 Continue. Host may be missing, as with
    gevent and eventlet. Parks: as the file does. Raises: Refusal, OSError if the client disconnects before the end.
    """

    def __init__(self, file: Any, request_line: bytes, limits: Limits, edit: Edit = list) -> None:
        if request_line == b"\r\n":  # the caller has already skipped one empty line
            raise bad("the request line is malformed")
        parser = new_parser(limits)
        parser.buffer = request_line
        parser.head({})  # refuses a malformed request line before the rest arrives
        lines = edit([request_line, *read_lines(file, limits)])
        parser.buffer = b"".join(lines)
        parser.head({})
        pairs = (line[:-2].decode("latin-1").partition(":") for line in lines[1:-1])
        self.fields: list[tuple[str, str]] = [(name, value.strip(" \t")) for name, _, value in pairs]
        self.length: int | None = 0 if parser.complete else None if parser.chunked else parser.remaining
        self.persistent: bool = parser.persistent
        self.expects_continue: bool = parser.expects_continue
        parser.close()


def read_lines(file: Any, limits: Limits) -> list[bytes]:
    """Read the fields, up to the empty line. Parks, raises: as FileHead."""
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
    """The body of one request. ``length``: bytes, None: in chunks.

    Parks: as the file does. Raises: Refusal, OSError if the client disconnects before the end.
    """

    def __init__(self, file: Any, length: int | None) -> None:
        self.file = file
        self.parser = new_parser(Limits())
        self.parser.begin_body(length)

    @property
    def at_end(self) -> bool:
        """Whether the end of the body was parsed."""
        return self.parser.complete

    @property
    def left(self) -> int:
        """Number of bytes sure to come: the rest of the body, or of the current chunk."""
        parser = self.parser
        return max(0, parser.chunk_left - 2) if parser.chunked else parser.remaining

    def read(self, limit: int, whole_line: bool = False) -> bytes:
        """Return 1 to ``limit`` bytes, of one line if ``whole_line``; b"" at the end of the body."""
        parser = self.parser
        if parser.error is not None:
            raise parser.error
        while not parser.complete:
            parser.buffer = data = self.next_bytes(limit, whole_line)
            if not data:
                raise ConnectionResetError("the client disconnected in the middle of a body")
            if len(data) == LINE_BYTES and not self.left and not data.endswith(b"\n"):
                parser.error = bad("a line of the body is too long")
                raise parser.error
            yield_if_due()  # parsing a buffered file of small chunks takes many turns
            parser.feed()
            if parser.complete:
                parser.close()
            if parser.pieces:
                piece = b"".join(parser.pieces)
                parser.pieces.clear()
                return piece
        return b""

    def next_bytes(self, limit: int, whole_line: bool) -> bytes:
        """Read bytes that surely belong to this body: data, the CRLF after a chunk, a chunk's line or a trailer."""
        parser, file = self.parser, self.file
        size = self.left
        if size:
            size = min(size, limit, DATA_BYTES)
            return file.readline(size) if whole_line else file.read(size)  # type: ignore[no-any-return]
        return file.read(parser.chunk_left) if parser.chunk_left else file.readline(LINE_BYTES)  # type: ignore[no-any-return]
