"""``eventlet.websocket``: WebSockets (RFC 6455, version 13, without extensions) in a WSGI app."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any

from .semaphore import Semaphore

__all__ = ["ConnectionClosedError", "ProtocolError", "RFC6455WebSocket", "WebSocket", "WebSocketWSGI"]

MAX_FRAME_LENGTH = 8 * 1024 * 1024
"""Bytes of a message that are accepted unless ``WebSocketWSGI`` says otherwise."""

KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class ConnectionClosedError(Exception):
    """The peer has closed the connection."""


class ProtocolError(ValueError):
    """The peer has sent what no WebSocket sends; the connection ends."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class WebSocketWSGI:
    """Make a WSGI app of a function that takes a WebSocket. Source: ``eventlet.websocket.WebSocketWSGI``.

    It is served by ``eventlet.wsgi.server``, or any server of Dhaga. A request that asks for no WebSocket gets 400.
    """

    def __init__(
        self,
        handler: Callable[[RFC6455WebSocket], Any] | None = None,
        max_frame_length: int = MAX_FRAME_LENGTH,
        supported_protocols: Iterable[str] = (),
    ) -> None:
        self.handler: Any = handler
        self.max_frame_length = max_frame_length
        self.protocols = list(supported_protocols)

    @classmethod
    def configured(cls, handler: Any = None, supported_protocols: Iterable[str] = ()) -> Any:
        """Return an app, or without a handler a decorator that makes one."""
        if handler is None:
            return lambda handler: cls(handler, supported_protocols=supported_protocols)
        return cls(handler, supported_protocols=supported_protocols)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        why = self.refusal(environ)
        if why:
            start_response("400 Bad Request", [("Content-Type", "text/plain")])
            return [why.encode()]
        sock, received = environ["dhaga.upgrade"]()
        key = environ["HTTP_SEC_WEBSOCKET_KEY"].encode("latin-1")
        accept = base64.b64encode(hashlib.sha1(key + KEY_SUFFIX, usedforsecurity=False).digest()).decode()
        offered = [each.strip() for each in environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")]
        chosen = next((each for each in offered if each and each in self.protocols), None)
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Accept: {accept}", *([f"Sec-WebSocket-Protocol: {chosen}"] if chosen else [])]
        sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        websocket = RFC6455WebSocket(sock, environ, received, chosen, self.max_frame_length)
        try:
            self.handler(websocket)
        except OSError:
            pass  # the client has gone
        finally:
            websocket.close()
        return []

    def refusal(self, environ: dict[str, Any]) -> str:
        """Return why a request gets no WebSocket, or nothing."""
        if "websocket" not in environ.get("HTTP_UPGRADE", "").lower():
            return "this address is for WebSockets: Upgrade: websocket is missing"
        if "upgrade" not in environ.get("HTTP_CONNECTION", "").lower():
            return "Connection: Upgrade is missing"
        if environ.get("HTTP_SEC_WEBSOCKET_VERSION") != "13" or "HTTP_SEC_WEBSOCKET_KEY" not in environ:
            return "Sec-WebSocket-Version must be 13, and a Sec-WebSocket-Key be given"
        if "dhaga.upgrade" not in environ:
            return "the server gives no connections away: serve this app by Dhaga's"
        return ""


class RFC6455WebSocket:
    """One WebSocket. Source: ``eventlet.websocket.WebSocket``. Several greenthreads may send; one waits."""

    version = 13

    def __init__(
        self, sock: Any, environ: dict[str, Any], received: bytes = b"", protocol: str | None = None, limit: int = 0
    ) -> None:
        self.socket = sock
        self.environ = environ
        self.protocol = protocol
        self.path = environ.get("PATH_INFO", "")
        self.origin = environ.get("HTTP_ORIGIN")
        self.log_context = environ.get("REMOTE_ADDR")
        self.websocket_closed = False
        self._limit = limit or MAX_FRAME_LENGTH
        self._buffer = bytearray(received)
        self._sending = Semaphore()

    def send(self, message: str | bytes) -> None:
        """Send a message: text, or binary. Parks: while the client does not read. Raises: OSError."""
        if self.websocket_closed:
            raise BrokenPipeError("the WebSocket is closed")
        if isinstance(message, str):
            self._send_frame(TEXT, message.encode())
        else:
            self._send_frame(BINARY, bytes(message))

    def wait(self) -> Any:
        """Return the next message. Parks: until it is there. Returns: None once the client has closed."""
        if self.websocket_closed:
            return None
        try:
            return self._receive_message()
        except (ConnectionClosedError, OSError):
            self.close()
            return None
        except ProtocolError as error:
            self.close((error.code, str(error)))
            return None

    def close(self, close_data: tuple[int, str] | None = None) -> None:
        """Say that no message follows; ``close_data``: code and reason. No-op if it is closed."""
        if self.websocket_closed:
            return
        self.websocket_closed = True
        data = b"" if close_data is None else struct.pack("!H", close_data[0]) + close_data[1].encode()[:123]
        try:
            self._send_frame(CLOSE, data)
        except OSError:
            pass  # the client has gone

    def _send_frame(self, opcode: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size < 65_536:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        with self._sending:
            self.socket.sendall(head + data)

    def _receive_message(self) -> Any:
        kind = None
        pieces: list[bytes] = []
        while True:
            final, opcode, data = self._receive_frame(self._limit - sum(map(len, pieces)))
            if opcode == CLOSE:
                self.close((struct.unpack("!H", data[:2])[0], "") if len(data) >= 2 else None)
                raise ConnectionClosedError
            if opcode == PING:
                self._send_frame(PONG, data)
            if opcode in (PING, PONG):
                continue
            if (opcode == CONTINUATION) is (kind is None) or opcode > BINARY:
                raise ProtocolError(1002, f"a frame of type {opcode} does not come here")
            kind = kind or opcode
            pieces.append(data)
            if final:
                return self._decoded(kind, b"".join(pieces))

    @staticmethod
    def _decoded(kind: int, data: bytes) -> Any:
        if kind == BINARY:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ProtocolError(1007, "the text is not UTF-8") from None

    def _receive_frame(self, room: int) -> tuple[bool, int, bytes]:
        first, second = self._take(2)
        opcode, size = first & 15, second & 127
        if first & 0x70 or not second & 0x80:
            raise ProtocolError(1002, "a frame has bits of an extension, or no mask")
        if opcode >= CLOSE and (size > 125 or not first & 0x80):
            raise ProtocolError(1002, "a control frame is too long, or in pieces")
        if size > 125:
            size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
        if size > room:
            raise ProtocolError(1009, f"a message has more than {self._limit} bytes")
        mask = self._take(4)
        return bool(first & 0x80), opcode, unmasked(self._take(size), mask)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.socket.recv(65_536)
            if not data:
                raise ConnectionClosedError
            self._buffer += data
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


WebSocket = RFC6455WebSocket


def unmasked(data: bytes, mask: bytes) -> bytes:
    """Return the bytes with the mask of four bytes taken off, or put on: as one number, which is fast."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
