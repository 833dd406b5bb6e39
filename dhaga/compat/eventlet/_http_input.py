"""The file ``wsgi.input`` of ``eventlet.wsgi``: a request's body. An app can send 100 Continue through it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...http._server.request_file import FileBody
from ...http.limits import Refusal
from .._shared.body_file import BodyFile

__all__ = ["ChunkReadError", "Input"]

DISCARD_BYTES = 262_144
"""Maximum number of unread bytes that are discarded to keep a connection open; this is 16 reads."""

READ_BYTES = 16_384


class ChunkReadError(ValueError):
    """Raised if the client sends a malformed body; ``status`` is the response's status."""

    status = "400 Bad Request"


class Input(BodyFile):
    """The file ``wsgi.input``. Source: ``eventlet.wsgi.Input``.

    ``rfile``: the connection's reader. ``length``: the number of bytes of the body; None for a chunked body. ``send``:
    the function that sends 100 Continue; None if the client does not wait for it. Raises: OSError, ChunkReadError.
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
        """Set header fields that are sent with the next 100 Continue."""
        self._headers = [(capitalized(name) if capitalize else name, str(value)) for name, value in headers]

    def send_hundred_continue_response(self) -> None:
        """Send 100 Continue now. A second chunked body may then follow the first. Raises: OSError."""
        lines = ["HTTP/1.1 100 Continue", *(f"{name}: {value}" for name, value in self._headers)]
        self._headers, self._waits, self._continued = [], False, True
        if self.chunked_input and self.at_end:
            self._body = FileBody(self.rfile, None)
        if self._send is not None:
            self._send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    @property
    def was_declined(self) -> bool:
        """Whether the client waited for 100 Continue in vain, and therefore sends no body."""
        return self._send is not None and not self._continued

    def response_has_begun(self) -> None:
        """Disable 100 Continue, which the client would now read as part of the response."""
        self._waits = False

    # ---- the file

    def get_socket(self) -> Any:
        """Return the connection's socket, so that a WebSocket can take over the connection."""
        return self._sock

    def discard(self) -> bool:
        """Read and discard the rest, up to DISCARD_BYTES. Returns: whether the end was reached. Raises: OSError."""
        if self._waits and not self.at_end:
            return False
        for _ in range(DISCARD_BYTES // READ_BYTES):
            if self.at_end or not self.read(READ_BYTES):
                break
        return self.at_end

    @property
    def at_end(self) -> bool:
        """Whether the whole body was read."""
        return self._body is None or self._body.at_end

    @property
    def left(self) -> int:
        """The number of bytes that are known to be unread."""
        return 0 if self._body is None else self._body.left

    def _pieces(self, limit: int | None, whole_line: bool = False) -> Iterator[bytes]:
        """Yield up to ``limit`` bytes of the body, or up to the end of a line. Raises: OSError, ChunkReadError."""
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
    """Return a field name with each word capitalized. Only ASCII letters are changed."""
    return b"-".join([word.capitalize() for word in name.encode("latin-1").split(b"-")]).decode("latin-1")
