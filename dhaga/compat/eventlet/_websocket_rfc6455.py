"""RFC6455WebSocket: frames, messages, and the handshake of the end, as a server or as a client."""

from __future__ import annotations

import os
import struct
import zlib
from typing import Any

from ..._kernel.run.turn_budget import yield_if_due
from ._websocket_deflate import NAME, Deflater, Inflater
from .semaphore import Semaphore

MAX_FRAME_LENGTH = 8 * 1024 * 1024
"""Bytes of a message that are accepted unless ``WebSocketWSGI`` says otherwise."""

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class ConnectionClosedError(Exception):
    """The peer has closed the connection."""


class FailedConnectionError(Exception):
    """The peer sent invalid or too much data; ``status`` is the code of the close frame."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class ProtocolError(FailedConnectionError, ValueError):
    """The peer breaks a rule of RFC 6455."""

    def __init__(self, message: str) -> None:
        super().__init__(1002, message)


class Message:
    """A message with the frames received so far."""

    def __init__(self, opcode: int, limit: int, decompressor: Inflater | None) -> None:
        self.opcode = opcode
        self.limit = limit
        self.decompressor = decompressor
        self.data = bytearray()  # not a list: an endless series of empty frames must not fill the memory

    @property
    def size(self) -> int:
        """Bytes received so far, before decompression."""
        return len(self.data)

    def push(self, data: bytes) -> None:
        """Add a frame's data."""
        self.data += data

    def getvalue(self) -> Any:
        """Return text or bytes. Raises: FailedConnectionError."""
        data: bytes | None = bytes(self.data)
        if self.decompressor is not None:
            try:
                data = self.decompressor.decompress(data or b"", self.limit)
            except zlib.error:
                raise FailedConnectionError(1007, "the message is not compressed as was agreed") from None
            if data is None:
                raise FailedConnectionError(1009, "Incoming compressed frame is above length limit.")
        assert data is not None
        if self.opcode != TEXT:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise FailedConnectionError(1007, "the text is not UTF-8") from None


class WebSocket:
    """The WebSocket of a handler. Source: ``eventlet.websocket.WebSocket``, without the drafts before version 13."""

    def __init__(self, sock: Any, environ: dict[str, Any], version: int = 76) -> None:
        if version != 13:
            raise NotImplementedError(
                f"WebSockets of the draft {version} are not here: browsers speak version 13, RFC6455WebSocket"
            )
        self.socket = sock
        self.environ = environ
        self.version = version
        self.protocol: str | None = None
        self.path: Any = environ.get("PATH_INFO", "")
        self.origin: Any | None = environ.get("HTTP_ORIGIN")
        self.log_context: Any | None = environ.get("REMOTE_ADDR")
        self.websocket_closed = False
        self.max_frame_length = MAX_FRAME_LENGTH


class RFC6455WebSocket(WebSocket):
    """One WebSocket of version 13. Source: ``eventlet.websocket.RFC6455WebSocket``.

    Several greenthreads may send, but only one may receive (``wait``).

    ``client``: mask the frames sent; ``extensions``: the negotiated ones, only ``permessage-deflate``.
    """

    def __init__(
        self,
        sock: Any,
        environ: dict[str, Any],
        version: int = 13,
        protocol: str | None = None,
        client: bool = False,
        extensions: dict[str, dict[str, Any]] | None = None,
        max_frame_length: int = MAX_FRAME_LENGTH,
    ) -> None:
        super().__init__(sock, environ, version)
        self.protocol = protocol
        self.client = client
        self.extensions: dict[str, dict[str, Any]] = extensions or {}
        self.max_frame_length = max_frame_length
        self._buf = bytearray()
        self._sendlock = Semaphore()
        self._remote_close_data: bytes | None = None
        self._coders: tuple[Deflater, Inflater] | None = None

    def _deflate(self) -> tuple[Deflater, Inflater] | None:
        """Return the compressor and the decompressor, if negotiated."""
        found = self.extensions.get(NAME)
        if found is not None and self._coders is None:
            mine, peers = ("client", "server") if self.client else ("server", "client")
            self._coders = Deflater(found, mine), Inflater(found, peers)
        return None if found is None else self._coders

    # ---- sending

    def send(self, message: Any) -> None:
        """Send a message: text, or binary. Parks: while the peer does not read. Raises: OSError."""
        with self._sendlock:  # messages are compressed in the order in which they are sent
            if self.websocket_closed:
                raise BrokenPipeError("the WebSocket is closed")
            self.socket.sendall(self._pack_message(message, masked=self.client))

    def _pack_message(self, message: Any, masked: bool = False, opcode: int | None = None) -> bytes:
        """Return the frame of a message."""
        if opcode is None:
            opcode = TEXT if isinstance(message, str) else BINARY
        data = message.encode() if isinstance(message, str) else bytes(message)
        first = 0x80 | opcode
        coders = self._deflate()
        if coders is not None and opcode in (TEXT, BINARY):
            first |= 0x40
            data = coders[0].compress(data)
        size, mask_bit = len(data), 0x80 if masked else 0
        if size < 126:
            head = struct.pack("!BB", first, mask_bit | size)
        elif size < 65_536:
            head = struct.pack("!BBH", first, mask_bit | 126, size)
        else:
            head = struct.pack("!BBQ", first, mask_bit | 127, size)
        if masked:
            mask = os.urandom(4)
            return head + mask + unmasked(data, mask)
        return head + data

    def _send(self, data: bytes) -> None:
        if self.websocket_closed:
            raise BrokenPipeError("the WebSocket is closed")
        with self._sendlock:
            self.socket.sendall(data)

    def _send_control(self, opcode: int, data: bytes) -> None:
        self._send(self._pack_message(data, masked=self.client, opcode=opcode))

    def close(self, close_data: tuple[int, str] | None = None) -> None:
        """Send the close frame; ``close_data``: code and reason. No-op if it is closed."""
        if self.websocket_closed:
            return
        data = b"" if close_data is None else struct.pack("!H", close_data[0]) + close_data[1].encode()[:123]
        try:
            self._send_control(CLOSE, data)
        except OSError:
            pass  # the peer has gone
        self.websocket_closed = True

    # ---- receiving

    def wait(self) -> Any:
        """Return the next message. Parks: until it is there. Returns: None once the peer has closed, or has failed."""
        if self.websocket_closed:
            return None
        try:
            return self._recv_message()
        except FailedConnectionError as error:
            self.close((error.status, error.message))
        except (ConnectionClosedError, OSError):
            self.close()
        return None

    def _recv_message(self) -> Any:
        message: Message | None = None
        while True:
            message = self._recv_frame(message)
            if message is not None and message.decompressor is not None and message.size > self.max_frame_length:
                raise FailedConnectionError(1009, "Incoming compressed frame is above length limit.")
            if message is not None and self._final:
                return message.getvalue()

    def _recv_frame(self, message: Message | None = None) -> Message | None:
        """Receive a frame. Returns: the message that it begins or continues; ``message`` after a control frame."""
        yield_if_due()  # one recv brings 10,900 empty frames
        first, second = self._take(2)
        opcode, size = first & 15, second & 127
        compressed = bool(first & 0x40)
        if first & 0x30 or (compressed and (self._deflate() is None or opcode not in (TEXT, BINARY))):
            raise ProtocolError("a frame has bits of an extension that was not agreed on")
        if bool(second & 0x80) is self.client:
            raise ProtocolError("a client's frames must be masked, and a server's must not")
        if opcode >= CLOSE:
            self._handle_control(first, opcode, size)
            return message
        if opcode > BINARY or (opcode == CONTINUATION) is (message is None):
            raise ProtocolError(f"a frame of type {opcode} does not come here")
        size = self._full_size(size)
        room = self.max_frame_length - (message.size if message is not None else 0)
        if size > room:
            raise FailedConnectionError(1009, f"Incoming frame of {size} bytes is above length limit of {room} bytes.")
        if message is None:
            coders = self._deflate() if compressed else None
            message = Message(opcode, self.max_frame_length, coders[1] if coders else None)
        message.push(self._take_data(size))
        self._final = bool(first & 0x80)
        return message

    _final = False

    def _handle_control(self, first: int, opcode: int, size: int) -> None:
        """Answer a ping or a close frame. Raises: ConnectionClosedError after a close frame."""
        self._final = False
        if size > 125 or not first & 0x80 or opcode > PONG:
            raise ProtocolError("a control frame is too long, in pieces, or unknown")
        data = self._take_data(size)
        if opcode == PING:
            self._send_control(PONG, data)
        elif opcode == CLOSE:
            self._remote_close_data = data
            self.close((struct.unpack("!H", data[:2])[0], "") if len(data) >= 2 else None)
            raise ConnectionClosedError

    def _full_size(self, size: int) -> int:
        return size if size < 126 else int.from_bytes(self._take(2 if size == 126 else 8), "big")

    def _take_data(self, size: int) -> bytes:
        if self.client:
            return self._take(size)
        mask = self._take(4)
        return unmasked(self._take(size), mask)

    def _take(self, size: int) -> bytes:
        buffer = self._buf
        while len(buffer) < size:
            data = self.socket.recv(65_536)
            if not data:
                raise ConnectionClosedError
            buffer += data
        taken = bytes(buffer[:size])
        del buffer[:size]
        return taken


def unmasked(data: bytes, mask: bytes) -> bytes:
    """Return the bytes XORed with the mask of four bytes. Both are treated as one number, for speed."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
