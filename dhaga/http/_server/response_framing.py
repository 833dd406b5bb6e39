"""Framing: how a client finds the end of a response's body (RFC 9112, section 6.3).

``dhaga.http.wsgi`` and the WSGI servers of ``dhaga.compat`` use this module. There are four cases: no body, a body with
a Content-Length, a body in chunks, and in HTTP/1.0 a body that ends with the connection.
"""

from __future__ import annotations

BODILESS = "204", "304"
"""Statuses of responses that have no body (RFC 9110, section 6.4.1)."""

LAST_CHUNK = b"0\r\n\r\n"


class Framing:
    """The framing of one response's body, and the number of bytes sent.

    ``bodiless``: whether the body is left out, because of HEAD or the status.
    ``remaining``: the number of bytes of Content-Length still to be sent, or -1 after an excess.
    ``size``: the number of bytes of the body sent so far.
    """

    __slots__ = "bodiless", "chunked", "remaining", "size"

    def __init__(self, method: str) -> None:
        self.bodiless: bool = method == "HEAD"
        self.chunked: bool = False
        self.remaining: int | None = None
        self.size: int = 0

    def settle(self, status: str, length: int | None, version: str) -> bool:
        """Choose the framing for a status, a Content-Length (None: unknown) and the request's HTTP version.

        Returns: whether the body ends with the connection.
        """
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
        """Count a piece of the body, and return the bytes to send for it."""
        if self.remaining is not None:
            data = self.cut_to_length(data, self.remaining)
        if self.bodiless:
            return b""
        self.size += len(data)
        return b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data

    def cut_to_length(self, data: bytes, remaining: int) -> bytes:
        """Count a piece, and cut off bytes beyond Content-Length, which a client would read as the next response."""
        if len(data) <= remaining:
            self.remaining = remaining - len(data)
            return data
        if remaining >= 0 and not self.bodiless:
            self.excess()
        self.remaining = -1
        return data[: max(0, remaining)]

    def excess(self) -> None:
        """Report that the app gave more bytes than its Content-Length. Called once per response."""

    def lacks(self) -> bool:
        """Return whether the finished body is shorter than its Content-Length, so that the client waits for more."""
        return self.remaining is not None and self.remaining > 0 and not self.bodiless
