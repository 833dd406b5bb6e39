"""``wsgi.input`` of ``gevent.pywsgi``: a request's body, read from the connection's file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...http._server.request_file import FileBody
from .._shared.body_file import BodyFile

__all__ = ["MAX_REQUEST_LINE", "Input"]

MAX_REQUEST_LINE = 8192
"""Maximum number of bytes of a request line."""

DISCARD_BLOCK = 16384


class Input(BodyFile):
    """A reader of one request's body. ``position``: the number of bytes read. Source: ``gevent.pywsgi.Input``."""

    def __init__(self, rfile: Any, content_length: Any, socket: Any = None, chunked_input: bool = False) -> None:
        self.rfile = rfile
        self.content_length: int | None = None if content_length is None else int(content_length)
        self.socket: Any = socket
        """The socket on which "100 Continue" is sent before the first read; None if the client does not wait for it."""
        self.chunked_input = chunked_input
        self.position: int = 0
        self._body = None
        if chunked_input or self.content_length:
            self._body = FileBody(rfile, None if chunked_input else self.content_length)

    def __next__(self) -> bytes:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    next = __next__

    def _pieces(self, limit: int | None, whole_line: bool = False) -> Iterator[bytes]:
        self._send_100_continue()
        for piece in super()._pieces(limit, whole_line):
            self.position += len(piece)
            yield piece

    def _send_100_continue(self) -> None:
        socket, self.socket = self.socket, None
        if socket is not None:
            socket.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def discard(self) -> None:
        """Read and discard the rest of the body, so that the next request can be read."""
        self.socket = None  # send no 100 Continue: the client has sent the body without it, or will do so
        while self.read(DISCARD_BLOCK):
            pass

    _discard = discard
