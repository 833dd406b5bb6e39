"""The file ``wsgi.input`` over the body of a request that is read from a connection's file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ...http._server.request_file import FileBody


class BodyFile:
    """Reads the body of one request. ``_body``: None without one. Parks: while bytes are missing.

    Raises: OSError if the client disconnects before the end; Refusal, an OSError, for a malformed body.
    """

    _body: FileBody | None

    def read(self, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes, or the rest."""
        return b"".join(self._pieces(length))

    def readline(self, size: int | None = None) -> bytes:
        """Return a line with its end, at most ``size`` bytes of it."""
        return b"".join(self._pieces(size, whole_line=True))

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

    def _pieces(self, limit: int | None, whole_line: bool = False) -> Iterator[bytes]:
        """Yield the body up to a number of bytes, or to the end of a line."""
        left = sys.maxsize if limit is None or limit < 0 else limit
        while left and self._body is not None and (piece := self._body.read(left, whole_line)):
            yield piece
            left -= len(piece)
            if whole_line and piece.endswith(b"\n"):
                break
