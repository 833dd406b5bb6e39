"""Framing: where the body of one response ends (RFC 9112, 6.3), for the servers of Dhaga, gevent and eventlet.

Four cases: no body, Content-Length bytes, chunks, and in HTTP/1.0 all bytes up to the end of the connection.
"""

from __future__ import annotations

BODILESS = "204", "304"
"""Statuses without a body (RFC 9110, 6.4.1)."""

LAST_CHUNK = b"0\r\n\r\n"


class Framing:
    """The framing of one body, and the count of its bytes.

    ``bodiless``: HEAD, 204 or 304; ``remaining``: bytes still to come by Content-Length, -1 after an excess;
    ``size``: bytes of the body so far.
    """

    __slots__ = "bodiless", "chunked", "remaining", "size"

    def __init__(self, method: str) -> None:
        self.bodiless: bool = method == "HEAD"
        self.chunked: bool = False
        self.remaining: int | None = None
        self.size: int = 0

    def settle(self, status: str, length: int | None, version: str) -> bool:
        """Choose the framing. Returns: whether the body ends with the connection."""
        if status[:3] in BODILESS:
            self.bodiless = True
        elif length is not None:
            self.remaining = length
        elif version == "HTTP/1.1":
            self.chunked = not self.bodiless
        else:
            return not self.bodiless
        return False

    def frame(self, data: bytes) -> bytes:
        """Count a piece, and return it in its wire format."""
        if self.remaining is not None:
            data = self.cut_to_length(data, self.remaining)
        if self.bodiless:
            return b""
        self.size += len(data)
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def cut_to_length(self, data: bytes, remaining: int) -> bytes:
        """Count a piece against Content-Length and cut off the excess: the client would read it as a response."""
        if len(data) <= remaining:
            self.remaining = remaining - len(data)
            return data
        if remaining >= 0 and not self.bodiless:
            self.excess()
        self.remaining = -1
        return data[: max(0, remaining)]

    def excess(self) -> None:
        """Report, once, that the app gave more than its Content-Length."""

    def lacks(self) -> bool:
        """Return whether the client still waits for a part of the body, after its end."""
        return self.remaining is not None and self.remaining > 0 and not self.bodiless
