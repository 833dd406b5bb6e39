"""RFC6455WebSocket: a WebSocket's frames, messages and closing handshake, as a server or as a client."""

from __future__ import annotations

import os
import struct
import zlib
from typing import Any

from ..._kernel.run.turn_budget import yield_if_due
from ._websocket_deflate import NAME, Deflater, Inflater
from .semaphore import Semaphore

MAX_FRAME_LENGTH = 8 * 1024 * 1024
"""Maximum size of a message in bytes, unless ``WebSocketWSGI`` sets another maximum."""

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

STATUS_CODES = frozenset((*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)))
"""The codes that a close frame may carry: RFC 6455, section 7.4, and IANA's registry of close codes."""


class ConnectionClosedError(Exception):
    """Raised after the peer has closed the connection."""


class FailedConnectionError(Exception):
    """Raised if the peer sends invalid data or too much data; ``status`` is the code of the close frame."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class ProtocolError(FailedConnectionError, ValueError):
    """Raised if the peer violates RFC 6455."""

    def __init__(self, message: str) -> None:
        super().__init__(1002, message)


class Message:
    """A message, assembled from its frames."""

    def __init__(self, opcode: int, limit: int, decompressor: Inflater | None) -> None:
        self.opcode = opcode
        self.limit = limit
        self.decompressor = decompressor
        self.data = bytearray()  # not a list: an endless series of empty frames must not fill the memory

    @property
    def size(self) -> int:
        """The number of bytes received so far, before decompression."""
        return len(self.data)

    def push(self, data: bytes) -> None:
        """Append a frame's data."""
        self.data += data

    def getvalue(self) -> Any:
        """Return the message as text or bytes. Raises: FailedConnectionError."""
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
    """The WebSocket that a handler gets. Source: ``eventlet.websocket.WebSocket``, but only version 13."""

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
    """A WebSocket of version 13. Source: ``eventlet.websocket.RFC6455WebSocket``.

    Several greenthreads may send, but only one may receive (``wait``).

    ``client``: whether this side is the client, whose frames are masked. ``extensions``: the negotiated extensions;
    only ``permessage-deflate``.
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
        self._buf = bytearray()  # the current frame, and the bytes received after it
        self._taken = 0  # number of bytes at the beginning of _buf that the current frame has used
        self._message: Message | None = None  # the frames of an unfinished message
        self._sendlock = Semaphore()
        self._remote_close_data: bytes | None = None
        self._coders: tuple[Deflater, Inflater] | None = None

    def _deflate(self) -> tuple[Deflater, Inflater] | None:
        """Return the compressor and the decompressor; None if compression was not negotiated."""
        found = self.extensions.get(NAME)
        if found is not None and self._coders is None:
            mine, peers = ("client", "server") if self.client else ("server", "client")
            self._coders = Deflater(found, mine), Inflater(found, peers)
        return None if found is None else self._coders

    # ---- sending

    def send(self, message: Any) -> None:
        """Send a message, either text or bytes. Parks: while the peer does not read. Raises: OSError."""
        with self._sendlock:  # messages must be sent in the order in which they are compressed
            if self.websocket_closed:
                raise BrokenPipeError("the WebSocket is closed")
            self._send_frame(self._pack_message(message, masked=self.client))

    def _pack_message(self, message: Any, masked: bool = False, opcode: int | None = None) -> bytes:
        """Return a message as one frame."""
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
            self._send_frame(data)

    def _send_frame(self, data: bytes) -> None:
        """Send a frame. After a failed or cancelled send, the peer would read another frame as the rest of this one."""
        try:
            self.socket.sendall(data)
        except BaseException:
            self.websocket_closed = True
            raise

    def _send_control(self, opcode: int, data: bytes) -> None:
        self._send(self._pack_message(data, masked=self.client, opcode=opcode))

    def close(self, close_data: tuple[int, str] | None = None) -> None:
        """Send the close frame; ``close_data``: code and reason. No-op if the WebSocket is closed."""
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
        """Return the next message, or None once the peer has closed or failed.

        Parks: until a message is complete. After a Timeout, the next call continues with the bytes received so far.
        """
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
        while True:
            message = self._message = self._recv_frame(self._message)
            if message is not None and message.decompressor is not None and message.size > self.max_frame_length:
                raise FailedConnectionError(1009, "Incoming compressed frame is above length limit.")
            if message is not None and self._final:
                self._message = None
                return message.getvalue()

    def _recv_frame(self, message: Message | None = None) -> Message | None:
        """Receive a frame. Returns: the frame's message; after a control frame, the argument ``message``."""
        yield_if_due()  # one recv() may return 10,900 empty frames
        self._taken = 0
        message = self._parse_frame(message)
        del self._buf[: self._taken]
        return message

    def _parse_frame(self, message: Message | None) -> Message | None:
        """Do the work of ``_recv_frame``, but leave the frame in the buffer, so that a Timeout may interrupt it."""
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
        """Handle a control frame: answer a ping or a close. Raises: ConnectionClosedError after a close frame."""
        self._final = False
        if size > 125 or not first & 0x80 or opcode > PONG:
            raise ProtocolError("a control frame is too long, in pieces, or unknown")
        data = self._take_data(size)
        if opcode == PING:
            self._send_control(PONG, data)
        elif opcode == CLOSE:
            self._remote_close_data = data
            self.close((checked_status(data), "") if data else None)
            raise ConnectionClosedError

    def _full_size(self, size: int) -> int:
        return size if size < 126 else int.from_bytes(self._take(2 if size == 126 else 8), "big")

    def _take_data(self, size: int) -> bytes:
        if self.client:
            return self._take(size)
        mask = self._take(4)
        return unmasked(self._take(size), mask)

    def _take(self, size: int) -> bytes:
        buffer, begin = self._buf, self._taken
        end = begin + size
        while len(buffer) < end:
            data = self.socket.recv(65_536)
            if not data:
                raise ConnectionClosedError
            buffer += data
        self._taken = end
        return bytes(buffer[begin:end])


def checked_status(data: bytes) -> int:
    """Return the code of a close frame. Raises: ProtocolError for a code or a reason that RFC 6455 forbids."""
    status = int.from_bytes(data[:2], "big")
    if len(data) < 2 or status not in STATUS_CODES:
        raise ProtocolError("a close frame has a status code that may not be sent")
    try:
        data[2:].decode()
    except UnicodeDecodeError:
        raise ProtocolError("the reason of a close frame is not UTF-8") from None
    return status


def unmasked(data: bytes, mask: bytes) -> bytes:
    """Return the bytes XORed with the repeated four-byte mask. For speed, two large numbers are XORed."""
    size = len(data)
    repeated = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(size, "big")
