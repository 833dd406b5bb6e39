"""The body of a request as a file, ``wsgi.input``: read from the connection as the app asks for it.

``Body`` brings the pieces; reading by sizes and lines is ``io.BufferedReader``'s. Not here: what a body is made of
(``messages.py``).
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from typing import Any

BUFFER = 8192
"""Bytes a body's reader holds: lines are found in them. Reads beyond go straight into the caller's memory."""


class Body(io.RawIOBase):
    """A body as a raw file. ``more()`` puts the next piece into ``pieces``, and returns False at the body's end.

    Parks: while the client has sent nothing more (``read fd N``). Raises: OSError if it has gone, is too slow, or
    sends what is no body.
    """

    def __init__(self, pieces: deque[bytes], more: Callable[[], bool]) -> None:
        super().__init__()
        self.pieces = pieces
        self.more = more

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        pieces = self.pieces
        while not pieces:
            if not self.more():
                return 0
        piece = pieces.popleft()
        size = min(len(piece), len(buffer))
        buffer[:size] = piece[:size]
        if size < len(piece):
            pieces.appendleft(piece[size:])
        return size

    def readall(self) -> bytes:
        """Read to the end; what has come before an error stays for the next read."""
        while self.more():
            pass
        whole = b"".join(self.pieces)
        self.pieces.clear()
        return whole


def reader(pieces: deque[bytes], more: Callable[[], bool]) -> io.BufferedReader:
    """Return the file that an app gets. Source: ``io.BufferedReader``; ``read(n)`` waits for all n bytes or the end."""
    return io.BufferedReader(Body(pieces, more), BUFFER)
