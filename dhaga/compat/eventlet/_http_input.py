"""The body of a request, for ``eventlet.wsgi``: as many bytes as Content-Length says, or chunks (RFC 9112, 7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["ChunkReadError", "Input"]

DISCARD_BYTES = 262_144
"""Bytes of an unread body that are read and dropped to keep a connection; 16 reads."""

READ_BYTES = 16_384
MAX_LINE = 4096
"""Bytes of a chunk's line, with its extensions, or of a trailer."""

HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class ChunkReadError(ValueError):
    """What should be the size of a chunk is none."""


class Input:
    """The file ``wsgi.input``. Source: ``eventlet.wsgi.Input``.

    ``rfile``: the connection's reader; ``length``: bytes of the body, None if it has chunks; ``send``: sends bytes to a
    client that waits for 100 Continue, else None. Parks: while the client sends nothing.
    """

    def __init__(self, rfile: Any, length: int | None, sock: Any, send: Any = None) -> None:
        self.rfile = rfile
        self.left = length or 0
        self.chunked_input = length is None
        self._sock = sock
        self._send = send
        self._waits = send is not None
        self._continued = False
        self._headers: list[tuple[str, str]] = []
        self._chunk = 0  # bytes left of the current chunk
        self._ended = length == 0

    # ---- 100 Continue

    @property
    def client_waits(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the body."""
        return self._waits

    def set_hundred_continue_response_headers(
        self, headers: Iterable[tuple[str, str]], capitalize: bool = True
    ) -> None:
        """Send fields along with the next 100 Continue."""
        self._headers = [(capitalized(name) if capitalize else name, str(value)) for name, value in headers]

    def send_hundred_continue_response(self) -> None:
        """Send 100 Continue now: a body in chunks may follow another one by it. Raises: OSError."""
        lines = ["HTTP/1.1 100 Continue", *(f"{name}: {value}" for name, value in self._headers)]
        self._headers, self._waits, self._continued = [], False, True
        if self.chunked_input:
            self._ended = False
        if self._send is not None:
            self._send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    @property
    def was_declined(self) -> bool:
        """Whether the client still waits, and so sends nothing."""
        return self._send is not None and not self._continued

    def response_has_begun(self) -> None:
        """Send no 100 Continue any more: the client takes what comes for the response."""
        self._waits = False

    # ---- the file

    def read(self, length: int | None = None) -> bytes:
        """Return so many bytes, or the rest. Raises: OSError, ChunkReadError."""
        self._begin()
        wanted = -1 if length is None or length < 0 else length
        if not self.chunked_input:
            return self._read_plain(wanted)
        pieces: list[bytes] = []
        while wanted:
            piece = self._read_chunk(wanted if wanted > 0 else READ_BYTES)
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece) if wanted > 0 else 0
        return b"".join(pieces)

    def readline(self, size: int | None = None) -> bytes:
        """Return a line with its end, at most ``size`` bytes of it."""
        self._begin()
        bound = -1 if size is None or size < 0 else size
        if not self.chunked_input:
            bound = self.left if bound < 0 else min(bound, self.left)
            line: bytes = self.rfile.readline(bound) if bound else b""
            self.left -= len(line)
            return line
        pieces: list[bytes] = []
        while bound:
            piece = self._read_chunk(bound if bound > 0 else READ_BYTES, line=True)
            pieces.append(piece)
            bound -= len(piece) if bound > 0 else 0
            if not piece or piece.endswith(b"\n"):
                break
        return b"".join(pieces)

    def readlines(self, hint: int | None = None) -> list[bytes]:
        """Return the lines, about ``hint`` bytes of them."""
        lines: list[bytes] = []
        size = 0
        for line in self:
            lines.append(line)
            size += len(line)
            if hint is not None and 0 < hint <= size:
                break
        return lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def get_socket(self) -> Any:
        """Return the connection's socket: a WebSocket takes the connection over."""
        return self._sock

    def discard(self) -> bool:
        """Read and drop the rest, up to a bound. Returns: whether its end was reached. Raises: OSError."""
        if self._waits and not self.at_end:
            return False
        for _ in range(DISCARD_BYTES // READ_BYTES):
            if self.at_end or not self.read(READ_BYTES):
                break
        return self.at_end

    @property
    def at_end(self) -> bool:
        """Whether all of the body was read."""
        return self._ended if self.chunked_input else not self.left

    # ---- framing

    def _begin(self) -> None:
        if self._waits and not self.at_end:
            self.send_hundred_continue_response()

    def _read_plain(self, wanted: int) -> bytes:
        size = self.left if wanted < 0 else min(wanted, self.left)
        if not size:
            return b""
        data: bytes = self.rfile.read(size)
        self.left = self.left - size if len(data) == size else 0
        if len(data) < size:
            raise ConnectionResetError("the client has left in the middle of a body")
        return data

    def _read_chunk(self, size: int, line: bool = False) -> bytes:
        """Return some bytes of the current chunk, or of the next one; b"" at the end of the body."""
        if self._ended:
            return b""
        if not self._chunk:
            self._chunk = self._next_size()
            if not self._chunk:
                self._drop_trailers()
                self._ended = True
                return b""
        size = min(size, self._chunk)
        data: bytes = self.rfile.readline(size) if line else self.rfile.read(size)
        if not data or (not line and len(data) < size):
            self._ended = True
            raise ConnectionResetError("the client has left in the middle of a chunk")
        self._chunk -= len(data)
        if not self._chunk and self.rfile.readline(3).rstrip(b"\r\n"):
            self._ended = True
            raise ChunkReadError("a chunk is longer than its size")
        return data

    def _next_size(self) -> int:
        line: bytes = self.rfile.readline(MAX_LINE)
        digits = line.partition(b";")[0].strip(b" \t\r\n")
        if not line.endswith(b"\n") or not digits or not HEX_DIGITS.issuperset(digits):
            self._ended = True
            raise ChunkReadError(f"{line[:40]!r} is no size of a chunk")
        return int(digits, 16)

    def _drop_trailers(self) -> None:
        size = 0
        while size < 65_536:
            line = self.rfile.readline(MAX_LINE)
            size += len(line)
            if line in (b"\r\n", b"\n", b""):
                return
        raise ChunkReadError("the trailers of a body are too long")


def capitalized(name: str) -> str:
    """Return a field's name with each of its words capitalized. Only ASCII has cases in a head."""
    return b"-".join([word.capitalize() for word in name.encode("latin-1").split(b"-")]).decode("latin-1")
