"""The file ``wsgi.input`` of ``eventlet.wsgi``: the body of a request, with 100 Continue as its apps send it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...http._server.request_file import FileBody
from ...http.limits import Refusal
from .._shared.body_file import BodyFile

__all__ = ["ChunkReadError", "Input"]

DISCARD_BYTES = 262_144
"""Bytes of an unread body that are read and dropped to keep a connection; 16 reads."""

READ_BYTES = 16_384


class ChunkReadError(ValueError):
    """The client has sent a malformed body; ``status`` is the answer that is due."""

    status = "400 Bad Request"


class Input(BodyFile):
    """The file ``wsgi.input``. Source: ``eventlet.wsgi.Input``.

    ``rfile``: the connection's reader; ``length``: bytes of the body, None if it has chunks; ``send``: sends bytes to a
    client that waits for 100 Continue, else None. Raises: OSError, ChunkReadError.
    """

    def __init__(self, rfile: Any, length: int | None, sock: Any, send: Any = None) -> None:
        self.rfile = rfile
        self.chunked_input: bool = length is None
        self.client_gone: bool = False
        self._sock = sock
        self._send = send
        self._waits = send is not None
        self._continued = False
        self._headers: list[tuple[str, str]] = []
        self._body = None if length == 0 else FileBody(rfile, length)

    # ---- 100 Continue

    @property
    def client_waits(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the body."""
        return self._waits

    def set_hundred_continue_response_headers(
        self, headers: Iterable[tuple[str, str]], capitalize: bool = True
    ) -> None:
        """Send fields along with the next 100 Continue."""
        self._headers = [(capitalized(name) if capitalize else name, str(value)) for name, value in headers]

    def send_hundred_continue_response(self) -> None:
        """Send 100 Continue now: a chunked body may follow another one after it. Raises: OSError."""
        lines = ["HTTP/1.1 100 Continue", *(f"{name}: {value}" for name, value in self._headers)]
        self._headers, self._waits, self._continued = [], False, True
        if self.chunked_input and self.at_end:
            self._body = FileBody(self.rfile, None)
        if self._send is not None:
            self._send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    @property
    def was_declined(self) -> bool:
        """Whether the client still waits and sends nothing."""
        return self._send is not None and not self._continued

    def response_has_begun(self) -> None:
        """Disable 100 Continue: the client would read it as part of the response."""
        self._waits = False

    # ---- the file

    def get_socket(self) -> Any:
        """Return the connection's socket: a WebSocket takes the connection over."""
        return self._sock

    def discard(self) -> bool:
        """Read and drop the rest, up to a bound. Returns: whether its end was reached. Raises: OSError."""
        if self._waits and not self.at_end:
            return False
        for _ in range(DISCARD_BYTES // READ_BYTES):
            if self.at_end or not self.read(READ_BYTES):
                break
        return self.at_end

    @property
    def at_end(self) -> bool:
        """Whether all of the body was read."""
        return self._body is None or self._body.at_end

    @property
    def left(self) -> int:
        """The number of bytes known to follow."""
        return 0 if self._body is None else self._body.left

    def _pieces(self, limit: int | None, whole_line: bool = False) -> Iterator[bytes]:
        """Yield the body up to a number of bytes, or to the end of a line. Raises: OSError, ChunkReadError."""
        if self._waits and not self.at_end:
            self.send_hundred_continue_response()
        try:
            yield from super()._pieces(limit, whole_line)
        except Refusal as refusal:
            raise ChunkReadError(str(refusal)) from None
        except OSError:
            self.client_gone = True
            raise


def capitalized(name: str) -> str:
    """Return a field's name with each of its words capitalized. Only ASCII has cases in a head."""
    return b"-".join([word.capitalize() for word in name.encode("latin-1").split(b"-")]).decode("latin-1")
