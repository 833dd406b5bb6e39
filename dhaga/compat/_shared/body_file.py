"""A request's body as the file ``wsgi.input``, read from the connection's file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from ...http._server.request_file import FileBody


class BodyFile:
    """A reader of one request's body. ``_body`` is None for a request without a body. Parks: while bytes are missing.

    Raises: OSError if the client disconnects before the body ends; Refusal, an OSError, for a malformed body.
    """

    _body: FileBody | None

    def read(self, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes; without ``length``, all remaining bytes."""
        return b"".join(self._pieces(length))

    def readline(self, size: int | None = None) -> bytes:
        """Return one line with its line end, or the first ``size`` bytes of a longer line."""
        return b"".join(self._pieces(size, whole_line=True))

    def readlines(self, hint: int | None = None) -> list[bytes]:
        """Return the remaining lines; with ``hint``, stop once the lines have ``hint`` bytes."""
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
        """Yield up to ``limit`` bytes of the body; with ``whole_line``, stop at the end of a line."""
        left = sys.maxsize if limit is None or limit < 0 else limit
        while left and self._body is not None and (piece := self._body.read(left, whole_line)):
            yield piece
            left -= len(piece)
            if whole_line and piece.endswith(b"\n"):
                break
