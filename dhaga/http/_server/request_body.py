"""``wsgi.input``: the body of a request as a file, received while the app reads it.

``RequestBody`` receives the pieces of the body. ``io.BufferedReader`` turns the pieces into lines, and into reads of a
given size. The module ``request_parser`` finds the body's end.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable
from typing import Any

BUFFER_BYTES = 8192
"""Size of a body reader's buffer, in which the reader looks for lines. Larger reads bypass the buffer."""


class RequestBody(io.RawIOBase):
    """A request's body as a raw file.

    ``receive_more`` appends the next piece to ``pieces``, or returns False at the body's end.

    Parks: until data arrives (``read fd N``). Raises: OSError if the client disconnects, is too slow, or sends a
    malformed body. A read after a cancelled read also raises OSError, because ``io.BufferedReader`` drops the bytes
    that the cancelled read has received.
    """

    def __init__(self, pieces: deque[bytes], receive_more: Callable[[], bool]) -> None:
        super().__init__()
        self.pieces = pieces
        self.receive_more = receive_more
        self.given = 0  # number of bytes that the BufferedReader has received
        self.taken = 0  # number of these that the app has received
        self.cut_off = False  # whether a cancelled read may have dropped bytes

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
        self.given += size
        return size

    def more(self) -> bool:
        """Receive the next piece. Returns: False at the body's end."""
        if self.cut_off:
            raise OSError("bytes of the body may be missing: an earlier read was cancelled, for example by a Timeout")
        try:
            return self.receive_more()
        except OSError:
            raise
        except BaseException:
            self.cut_off = self.given != self.taken
            raise

    def readall(self) -> bytes:
        """Read to the body's end. If an error occurs, the next read returns the pieces received before the error."""
        while self.more():
            pass
        whole = b"".join(self.pieces)
        self.pieces.clear()
        self.given += len(whole)
        return whole


class BodyReader(io.BufferedReader):
    """A buffered file over a body. Source: ``io.BufferedReader``: ``read(n)`` waits for n bytes or the end.

    After a cancelled read that had already received bytes, further reads fail.
    """

    raw: RequestBody

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.raw.taken += len(data)
        return data

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.raw.taken += len(line)
        return line

    def readinto(self, buffer: Any, /) -> int:
        size = super().readinto(buffer)
        self.raw.taken += size
        return size

    # The methods below receive only while the buffer is empty, so that a cancelled call does not drop bytes.

    def read1(self, size: int = -1, /) -> bytes:
        data = super().read1(size)
        self.raw.taken += len(data)
        return data

    def readinto1(self, buffer: Any, /) -> int:
        size = super().readinto1(buffer)
        self.raw.taken += size
        return size


def body_reader(pieces: deque[bytes], receive_more: Callable[[], bool]) -> BodyReader:
    """Return a buffered file over a body."""
    return BodyReader(RequestBody(pieces, receive_more), BUFFER_BYTES)
