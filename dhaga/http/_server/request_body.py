"""The body of a request as a file, ``wsgi.input``, received as the app reads it.

``RequestBody`` receives the pieces; ``io.BufferedReader`` handles sizes and lines. Framing: ``request_parser``.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from typing import Any

BUFFER_BYTES = 8192
"""Buffer of a body's reader, in which it looks for lines. Larger reads go directly into the caller's memory."""


class RequestBody(io.RawIOBase):
    """A body as a raw file.

    ``receive_more()`` puts the next piece into ``pieces``, and returns False at the body's end.

    Parks: while the client sends nothing (``read fd N``). Raises: OSError if the client disconnects, is too slow, or
    sends a malformed body.
    """

    def __init__(self, pieces: deque[bytes], receive_more: Callable[[], bool]) -> None:
        super().__init__()
        self.pieces = pieces
        self.receive_more = receive_more

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        pieces = self.pieces
        while not pieces:
            if not self.receive_more():
                return 0
        piece = pieces.popleft()
        size = min(len(piece), len(buffer))
        buffer[:size] = piece[:size]
        if size < len(piece):
            pieces.appendleft(piece[size:])
        return size

    def readall(self) -> bytes:
        """Read to the end; the pieces received before an error stay for the next read."""
        while self.receive_more():
            pass
        whole = b"".join(self.pieces)
        self.pieces.clear()
        return whole


def body_reader(pieces: deque[bytes], receive_more: Callable[[], bool]) -> io.BufferedReader:
    """Return the file that an app gets. Source: ``io.BufferedReader``; ``read(n)`` waits for all n bytes or the end."""
    return io.BufferedReader(RequestBody(pieces, receive_more), BUFFER_BYTES)
