"""``wsgi.input`` of ``gevent.pywsgi``: the body of a request, from the connection's file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ...http._server.request_file import FileBody

__all__ = ["MAX_REQUEST_LINE", "Input"]

MAX_REQUEST_LINE = 8192
"""Bytes of a request line."""

DISCARD_BLOCK = 16384


class Input:
    """Reads the body of one request. Parks: while bytes are missing.

    Raises: OSError if the client closes before; Refusal, an OSError, for a body that is not HTTP/1.1.
    """

    def __init__(self, rfile: Any, content_length: Any, socket: Any = None, chunked_input: bool = False) -> None:
        self.rfile = rfile
        self.content_length: int | None = None if content_length is None else int(content_length)
        self.socket: Any = socket
        """The function that sends "100 Continue" before the first read; None if the client does not wait for it."""
        self.chunked_input = chunked_input
        self.position: int = 0
        self._body: FileBody | None = None
        if chunked_input or self.content_length:
            self._body = FileBody(rfile, None if chunked_input else self.content_length)

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
        left = sys.maxsize if length is None or length < 0 else length
        pieces: list[bytes] = []
        while left and self._body is not None and (piece := self._body.read(left, whole_line)):
            pieces.append(piece)
            self.position += len(piece)
            left -= len(piece)
            if whole_line and piece.endswith(b"\n"):
                break
        return b"".join(pieces)

    def _send_100_continue(self) -> None:
        socket, self.socket = self.socket, None
        if socket is not None:
            socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def discard(self) -> None:
        """Read the unread rest, so that the next request can be read."""
        self.socket = None  # send no 100 Continue: the client has sent the body without it, or will
        while self._read(DISCARD_BLOCK, whole_line=False):
            pass

    _discard = discard
