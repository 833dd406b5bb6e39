"""``wsgi.input`` of ``gevent.pywsgi``: the body of a request, counted or in chunks, from the connection's file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["MAX_REQUEST_LINE", "Input", "InvalidClientData"]

MAX_REQUEST_LINE = 8192
"""Bytes of a request line, of a chunk's first line, of a trailer."""

DISCARD_BLOCK = 16384

HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")
TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\r?\n")


class InvalidClientData(OSError):
    """The client has sent what is no HTTP: it is answered with 400."""


class Input:
    """Reads the body of one request. Parks: while bytes are missing. Raises: OSError if the client closes before."""

    def __init__(self, rfile: Any, content_length: Any, socket: Any = None, chunked_input: bool = False) -> None:
        self.rfile = rfile
        self.content_length = None if content_length is None else int(content_length)
        self.socket = socket
        """Where a "100 Continue" goes before the first read; None if the client does not wait for it."""
        self.chunked_input = chunked_input
        self.position = 0
        self.left_in_chunk = 0
        self.has_begun = self.has_ended = False

    def read(self, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes, or all that are left."""
        return self._read(length, whole_line=False)

    def readline(self, size: int | None = None) -> bytes:
        """Return the rest of a line, or ``size`` bytes of it."""
        return self._read(size, whole_line=True)

    def readlines(self, hint: int | None = None) -> list[bytes]:
        """Return all lines that are left."""
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def _read(self, length: int | None, whole_line: bool) -> bytes:
        self._send_100_continue()
        limit = None if length is None or length < 0 else length
        return self._read_chunks(limit, whole_line) if self.chunked_input else self._read_counted(limit, whole_line)

    def _send_100_continue(self) -> None:
        socket, self.socket = self.socket, None
        if socket is not None:
            socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    # ---- a body of a known length

    def _read_counted(self, limit: int | None, whole_line: bool) -> bytes:
        left = (self.content_length or 0) - self.position
        wanted = left if limit is None else min(limit, left)
        if wanted <= 0:
            return b""
        data: bytes = self.rfile.readline(wanted) if whole_line else self.rfile.read(wanted)
        self.position += len(data)
        if len(data) < wanted and not (whole_line and data.endswith(b"\n")):
            raise OSError(f"unexpected end of file while reading request at position {self.position}")
        return data

    # ---- a body in chunks (RFC 9112, 7.1)

    def _read_chunks(self, limit: int | None, whole_line: bool) -> bytes:
        parts: list[bytes] = []
        while (limit is None or limit > 0) and self._enter_chunk():
            wanted = self.left_in_chunk if limit is None else min(limit, self.left_in_chunk)
            data = self.rfile.readline(wanted) if whole_line else self.rfile.read(wanted)
            self.left_in_chunk -= len(data)
            parts.append(data)
            if limit is not None:
                limit -= len(data)
            if whole_line and data.endswith(b"\n"):
                break
            if len(data) < wanted:
                raise OSError("unexpected end of file while parsing chunked data")
        return b"".join(parts)

    def _enter_chunk(self) -> bool:
        """Come to the next byte of the body. Returns: False at its end."""
        if self.left_in_chunk or self.has_ended:
            return not self.has_ended
        if self.has_begun and self.rfile.read(1) != b"\n" and self.rfile.read(1) != b"\n":
            raise InvalidClientData("a chunk that does not end where it should")
        self.has_begun = True
        self.left_in_chunk = self._read_chunk_size()
        if not self.left_in_chunk:
            self.has_ended = True
            self._skip_trailers()
        return not self.has_ended

    def _read_chunk_size(self) -> int:
        """Read the first line of a chunk, byte by byte, as what is none may never come to an end."""
        digits = b""
        while (byte := self.rfile.read(1)) and byte[0] in HEX_DIGITS:
            digits += byte
            if len(digits) > 16:
                raise InvalidClientData("a chunk too large")
        if byte in (b";", b" ", b"\t", b"\r"):
            rest = self.rfile.readline(MAX_REQUEST_LINE)
            if not rest.endswith(b"\n") and len(rest) == MAX_REQUEST_LINE:
                raise InvalidClientData("the first line of a chunk is too long")
            byte = rest[-1:]
            if byte and byte != b"\n":
                byte = b""
        if not byte:
            raise OSError("unexpected end of file while parsing chunked data")
        if byte != b"\n" or not digits:
            raise InvalidClientData("the size of a chunk is no hexadecimal number")
        return int(digits, 16)

    def _skip_trailers(self) -> None:
        while (line := self.rfile.readline(MAX_REQUEST_LINE)) not in (b"\r\n", b"\n", b""):
            if TRAILER.fullmatch(line) is None:
                raise InvalidClientData("what follows the last chunk is no trailer")

    # ---- what is not read

    def discard(self) -> None:
        """Read what the application has left, so that the next request can be read."""
        self.socket = None  # a client that was not told to continue has sent it nevertheless, or will
        while self._read(DISCARD_BLOCK, whole_line=False):
            pass

    _discard = discard
