"""Frames on a byte stream, their limits, and the errors both ends share.

A frame is a length of four bytes (big-endian) and as many bytes of msgpack. What the frames mean is said in `server`
and `rpc`, not here. The stream is neither encrypted nor signed: the token keeps strangers out, a hostile network needs
a tunnel.
"""

from __future__ import annotations

import functools
import hmac
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Final

from examples._late import Late

msgpack: Any = Late("msgpack")

VERSION: Final = 2  # 2: entries have owners, holes and hard links
FRAME_LIMIT: Final = 4 * 1024 * 1024  # sixteen of the largest chunks
GREETING_LIMIT: Final = 1024  # what a stranger may make the server read
MOST_VALUES: Final = 300_000  # in a frame: as many as its own length leaves room for, were each one honest
MOST_IN_ARRAY: Final = 50_000
READ_SIZE: Final = 64 * 1024  # a typical file's chunk in one system call
LINGER_SECONDS: Final = 1.0
LINGER_READS: Final = 64

_HEADER: Final = struct.Struct(">I")


class BackupError(Exception):
    """Tell the user what is wrong and what to do: the text is printed as it stands."""


class WireError(BackupError):
    """A frame that is no frame: too long, not msgpack, or not of the expected shape."""


class Refused(BackupError):
    """The other end understood and said no; asking again gives the same answer."""


class Disconnected(ConnectionError):
    """The other end closed the connection."""


class _Packers(threading.local):
    """One packer an OS thread: its 256 KB buffer is reused, and packing never parks, so dhagas can share it."""

    @functools.cached_property
    def pack(self) -> Callable[[object], bytes]:
        return msgpack.Packer(autoreset=True).pack  # type: ignore[no-any-return]


_packers: Final = _Packers()


def pack(message: object) -> bytes:
    """Turn plain values into msgpack."""
    return _packers.pack(message)


class _Values:
    """Counts the values of one frame while it is unpacked: a byte of msgpack may become a list of 64."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def count(self, values: list[Any]) -> list[Any]:
        self.left -= 1 + len(values)
        if self.left < 0:
            raise ValueError(f"more than {MOST_VALUES} values")
        return values


def _refuse(*_: object) -> None:
    raise ValueError("there are no maps and no extensions in a frame")


def unpack(body: bytes) -> Any:
    """Turn msgpack into plain values: numbers, texts, bytes and lists of them.

    Raises: WireError if the bytes are anything else.
    """
    try:
        return msgpack.unpackb(
            body, list_hook=_Values().count, object_hook=_refuse, ext_hook=_refuse,
            max_array_len=MOST_IN_ARRAY, max_ext_len=0,
        )  # fmt: skip
    except Exception as error:  # msgpack raises ValueError, its own errors and, for bad text, UnicodeDecodeError
        reason = str(error) or type(error).__name__
        raise WireError(f"bad frame: {len(body)} bytes that are not msgpack ({reason})") from error


def printable(text: str) -> str:
    """Give text of another's in a form that no terminal obeys."""
    return text if text.isprintable() else ascii(text)


def sign(token: str, nonce: bytes) -> bytes:
    """Prove knowledge of the token without sending it."""
    return hmac.digest(token.encode(), nonce, "sha256")


def unpaced(count: int) -> None:
    """Let any number of bytes through at once."""


class Wire:
    """A socket that speaks frames; `pace(n)` is asked before n bytes go and after n bytes came."""

    def __init__(self, sock: Any, pace: Callable[[int], None] = unpaced, piece: int = 0) -> None:
        self.sock = sock
        self.limit = FRAME_LIMIT
        self.sent = 0
        self.received = 0
        self._pace = pace
        self._piece = piece
        self._buffer = bytearray()

    def send(self, message: object) -> None:
        """Send one frame.

        Parks: while the peer's window is full or the pace holds it back.
        Raises: WireError for a message above the limit, before a byte of it is sent.
        """
        body = pack(message)
        if len(body) > self.limit:
            raise WireError(f"frame of {len(body)} bytes not sent: the limit is {self.limit}")
        self._send_bytes(_HEADER.pack(len(body)) + body)

    def receive(self) -> Any:
        """Receive one frame.

        Parks: until it is whole.
        Raises: WireError for a bad or over-long one (its body is not read), Disconnected at the end of the stream.
        """
        (size,) = _HEADER.unpack(self._take(_HEADER.size))
        if size > self.limit:
            raise WireError(f"over-long frame: {size} bytes announced, the limit is {self.limit}")
        return unpack(self._take(size))

    def close(self) -> None:
        """Close the socket; its waiter gets an error."""
        self.sock.close()

    def refuse(self, message: object) -> None:
        """Send a last frame, and read away what the other end still sends.

        To close with bytes unread would reset the connection, and the frame might never be seen.
        """
        self.send(message)
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(LINGER_SECONDS)
        for _ in range(LINGER_READS):
            if not self.sock.recv(READ_SIZE):
                break

    def _send_bytes(self, data: bytes) -> None:
        if not self._piece:
            self.sock.sendall(data)
        else:
            self._send_paced(memoryview(data))
        self.sent += len(data)

    def _send_paced(self, data: memoryview) -> None:
        for start in range(0, len(data), self._piece):
            piece = data[start : start + self._piece]
            self._pace(len(piece))
            self.sock.sendall(piece)

    def _take(self, size: int) -> bytes:
        buffer = self._buffer
        while len(buffer) < size:
            self._fill()
        taken = bytes(memoryview(buffer)[:size])
        del buffer[:size]
        return taken

    def _fill(self) -> None:
        data = self.sock.recv(self._piece or READ_SIZE)
        if not data:
            raise Disconnected("the other end closed the connection")
        self._buffer += data
        self.received += len(data)
        self._pace(len(data))
