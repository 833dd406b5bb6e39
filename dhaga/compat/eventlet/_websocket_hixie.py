"""WebSocket: the protocol before the RFC, by the drafts hixie-75 and hixie-76; the face of the later one, too."""

from __future__ import annotations

import collections
from typing import Any

from .semaphore import Semaphore

MAX_FRAME_LENGTH = 8 * 1024 * 1024
"""Bytes of a message that are accepted unless ``WebSocketWSGI`` says otherwise."""


class WebSocket:
    """One WebSocket. Source: ``eventlet.websocket.WebSocket``. Several greenthreads may send; one waits.

    A message is a zero byte, text in UTF-8, and 255; of version 76 the end is 255 and a zero.
    """

    def __init__(self, sock: Any, environ: dict[str, Any], version: int = 76) -> None:
        self.socket = sock
        self.environ = environ
        self.version = version
        self.protocol: str | None = environ.get("HTTP_WEBSOCKET_PROTOCOL")
        self.path = environ.get("PATH_INFO", "")
        self.origin = environ.get("HTTP_ORIGIN")
        self.log_context = environ.get("REMOTE_ADDR")
        self.websocket_closed = False
        self.max_frame_length = MAX_FRAME_LENGTH
        self._buf = b""
        self._msgs: collections.deque[Any] = collections.deque()
        self._sendlock = Semaphore()

    def send(self, message: Any) -> None:
        """Send a message; what is no text, and no bytes, is sent as its ``str``.

        Parks: while the client does not read. Raises: OSError.
        """
        text = message if isinstance(message, bytes) else str(message).encode()
        self._send(b"\x00" + text + b"\xff")

    def _send(self, data: bytes) -> None:
        if self.websocket_closed:
            raise BrokenPipeError("the WebSocket is closed")
        with self._sendlock:
            self.socket.sendall(data)

    def wait(self) -> Any:
        """Return the next message. Parks: until it is there. Returns: None once the client has closed.

        Raises: ValueError for what is no message.
        """
        while not self._msgs:
            if self.websocket_closed:
                return None
            data = self.socket.recv(65_536)
            if not data:
                return None
            self._buf += data
            self._parse()
        message = self._msgs.popleft()
        if message is None:
            self.close()  # the client has said so, and waits for the same
        return message

    def _parse(self) -> None:
        """Move whole messages out of the buffer; None stands for the end."""
        while self._buf:
            if self._buf[0] == 0:
                end = self._buf.find(b"\xff")
                if end < 0:
                    if len(self._buf) > self.max_frame_length:
                        raise ValueError(f"a message has more than {self.max_frame_length} bytes")
                    return
                self._msgs.append(self._buf[1:end].decode("utf-8", "replace"))
                self._buf = self._buf[end + 1 :]
            elif self._buf[:2] == b"\xff\x00":
                self._msgs.append(None)
                self._buf = b""
            elif self._buf == b"\xff":
                return
            else:
                raise ValueError(f"a message cannot begin by {self._buf[:2]!r}")

    def close(self) -> None:
        """Say that no message follows. No-op if it is closed."""
        if self.websocket_closed:
            return
        try:
            if self.version == 76:
                self._send(b"\xff\x00")
        except OSError:
            pass  # the client has gone
        self.websocket_closed = True
