"""The sync-looking face of Tornado's ``IOStream`` and ``SSLIOStream``, for what speaks to Tornado's own kind.

All reads are made of one kind of Tornado's: the next bytes, whatever they are. A read that is cut short stays where it
is, and what it brings goes to the buffer here, from which a reader of any kind is served next. Tornado's own reads
cannot be cancelled, and one that waits for a line would not serve a reader who asks for five bytes. Not here: sockets
of our own (``socket.py``), which are faster.
"""

from __future__ import annotations

import re
import socket
import ssl
from asyncio import CancelledError, Future
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from tornado.iostream import IOStream, StreamBufferFullError, StreamClosedError, UnsatisfiableReadError

from .kernel.api import Timeout, current
from .kernel.microthread import Dhaga, Main
from .locks import Lock
from .socket import create_connection
from .tasks import await_, awaiting

T = TypeVar("T")

CHUNK = 65536
"""How much one read asks for: Tornado's own ``read_chunk_size``."""

Position = Callable[[bytearray, int], int | None]


class Arrival:
    """A Future that a waiter is parked on, and that outlives the wait; the place of that park."""

    __slots__ = ("future", "me")

    def __init__(self, me: Dhaga | Main, future: Future[Any]) -> None:
        self.me = me
        self.future = future

    def wait(self, reason: str) -> Any:
        """Park until the Future is done. Returns and raises what it holds."""
        if not self.future.done():
            self.me.prepare(reason, self)
            self.future.add_done_callback(self.arrive)
            self.me.park()
        return self.future.result()

    def arrive(self, _: object) -> None:
        self.me.scheduler.wake_in_callback(self.me)

    def remove(self, waiter: object) -> bool:
        """Undo the park; False if the Future is done, and its callback on its way."""
        return self.future.remove_done_callback(self.arrive) > 0


async def made(fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return fn(*args)


def call(me: Dhaga | Main, fn: Callable[..., Any], *args: Any) -> Any:
    """Call into Tornado, which asks for the running loop: main code has none, so that it goes by a Task."""
    return fn(*args) if isinstance(me, Dhaga) else await_(made(fn, args))


def bounded(timeout: float | None, fn: Callable[..., T], *args: Any) -> T:
    """Call a function within a Timeout, if there is one: one of None takes 2 µs, of 50 of a round trip."""
    if timeout is None:
        return fn(*args)
    with Timeout(timeout):
        return fn(*args)


class Stream:
    """An ``IOStream`` that is read and written as a blocking file is: by any number of dhagas of one OS thread.

    Readers take turns in the order they come, and so do writers. What is cut short by a cancel or a timeout has read
    nothing: the bytes are for the next reader. What a writer has handed over is written in any case.
    """

    def __init__(self, iostream: IOStream) -> None:
        self.iostream = iostream
        self.scheduler = current().scheduler
        if iostream.io_loop.asyncio_loop is not self.scheduler.loop:  # type: ignore[attr-defined]
            raise RuntimeError(f"{iostream!r} belongs to another loop: make the Stream in a dhaga of that one")
        self.buffer = bytearray()
        self.filling: Future[bytes] | None = None
        self.shaking: Future[Any] | None = None  # hands; once it is done, that has failed, and the socket is gone
        self.reading = Lock()

    def __repr__(self) -> str:
        state = "closed" if self.closed() else "open"
        return f"<Stream {state}, {len(self.buffer)} bytes read ahead>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None) -> None:
        self.close()

    def closed(self) -> bool:
        return self.iostream.closed() or (self.shaking is not None and self.shaking.done())

    def here(self) -> Dhaga | Main:
        """Return the caller. Raises: RuntimeError from another OS thread's scheduler, and while hands are shaken;
        StreamClosedError if that has failed; ParkError.
        """
        me = current()
        if me.scheduler is not self.scheduler:
            raise RuntimeError(f"{self!r} lives in {self.scheduler!r}: only close() may be called from elsewhere")
        if self.shaking is not None:
            if self.shaking.done():
                raise StreamClosedError
            raise RuntimeError(f"{self!r} is in start_tls: read and write when that has returned")
        return me

    # ---- reading

    def read_bytes(self, num_bytes: int, partial: bool = False, timeout: float | None = None) -> bytes:
        """Read that many bytes, or with ``partial`` as many of them as come first.

        Parks: while they are not there (``stream.read``). From: a dhaga, main code of its thread. What is more than
        ``max_buffer_size`` closes the stream. Raises: StreamClosedError (its ``real_error`` says why), TimeoutError.
        """
        if num_bytes < 0:
            raise ValueError(f"read_bytes needs a number of bytes that is not negative: {num_bytes}")
        least = min(num_bytes, 1) if partial else num_bytes
        return self.read(lambda data, _: min(len(data), num_bytes) if len(data) >= least else None, timeout)

    def read_into(self, buf: Any, partial: bool = False, timeout: float | None = None) -> int:
        """Fill a writable buffer, or with ``partial`` its beginning. Returns: how many bytes; see ``read_bytes``."""
        with memoryview(buf).cast("B") as view:
            if view.readonly:
                raise TypeError(f"read_into needs a buffer that can be written into, not {type(buf).__name__}")
            data = self.read_bytes(len(view), partial, timeout)
            view[: len(data)] = data
        return len(data)

    def read_until(self, delimiter: bytes, max_bytes: int | None = None, timeout: float | None = None) -> bytes:
        """Read up to and with ``delimiter``. One that is not within ``max_bytes`` closes the stream, as in Tornado.

        Parks, From, Raises: see ``read_bytes``.
        """
        if not delimiter:
            raise ValueError("read_until needs a delimiter of at least one byte")

        def end_of(data: bytearray, seen: int) -> int | None:
            at = data.find(delimiter, max(0, seen - len(delimiter) + 1))
            return self.within(max_bytes, None if at < 0 else at + len(delimiter), delimiter)

        return self.read(end_of, timeout)

    def read_until_regex(self, regex: bytes, max_bytes: int | None = None, timeout: float | None = None) -> bytes:
        """Read up to the end of the first match; see ``read_until``."""
        pattern = re.compile(regex)

        def end_of(data: bytearray, _: int) -> int | None:
            found = pattern.search(data)
            return self.within(max_bytes, None if found is None else found.end(), regex)

        return self.read(end_of, timeout)

    def read_until_close(self, timeout: float | None = None) -> bytes:
        """Read all that comes until the other side closes. An error raises, and leaves what has come; a reset, which
        Tornado takes for an end, too.
        """
        try:
            return self.read(lambda _, __: None, timeout)
        except StreamClosedError as error:
            if error.real_error is not None:
                raise
            return self.take(len(self.buffer))

    def within(self, max_bytes: int | None, end: int | None, wanted: bytes) -> int | None:
        """Return ``end``. Raises: UnsatisfiableReadError if it is, or is going to be, beyond the limit."""
        if max_bytes is not None and (len(self.buffer) if end is None else end) > max_bytes:
            raise UnsatisfiableReadError(f"{wanted!r} is not within {max_bytes} bytes")
        return end

    def read(self, end_of: Position, timeout: float | None) -> bytes:
        """Fill the buffer until ``end_of(buffer, how much of it was there before)`` says where the read ends."""
        return bounded(timeout, self.read_in_turn, end_of)

    def read_in_turn(self, end_of: Position) -> bytes:
        me = self.here()
        with self.reading:
            seen = 0
            try:
                while (end := end_of(self.buffer, seen)) is None:
                    seen = len(self.buffer)
                    self.fill(me)
            except (UnsatisfiableReadError, StreamBufferFullError) as error:
                self.iostream.close(exc_info=error)
                raise StreamClosedError(real_error=error) from error
            return self.take(end)

    def fill(self, me: Dhaga | Main) -> None:
        """Add what comes next to the buffer. Raises: StreamClosedError, StreamBufferFullError."""
        if len(self.buffer) >= self.iostream.max_buffer_size:
            raise StreamBufferFullError("Reached maximum read buffer size")
        if self.filling is None:
            self.filling = call(me, self.iostream.read_bytes, CHUNK, True)
        try:
            self.buffer += Arrival(me, self.filling).wait("stream.read")
        finally:
            if self.filling.done():
                self.filling = None

    def take(self, count: int) -> bytes:
        with memoryview(self.buffer) as view:
            data = bytes(view[:count])
        del self.buffer[:count]
        return data

    # ---- writing

    def write(self, data: Any, timeout: float | None = None) -> None:
        """Write all of ``data``, after what others have written before.

        Parks: until it is with the operating system (``stream.write``). From: see ``read_bytes``. A cancel or a timeout
        ends the wait, not the writing: to stop that, ``close()``. Raises: StreamClosedError, TimeoutError,
        StreamBufferFullError.
        """
        me = self.here()
        future = call(me, self.iostream.write, data)
        bounded(timeout, Arrival(me, future).wait, "stream.write")

    # ---- the connection

    def start_tls(
        self,
        server_side: bool = False,
        ssl_options: dict[str, Any] | ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Go on encrypted, once both sides have shaken hands; if that fails or is cut short, the stream is closed.

        Parks: ``await``. From: see ``read_bytes``. Raises: ssl.SSLError, StreamClosedError, TimeoutError, RuntimeError
        (it is being done already), ValueError (a read or a write is under way, or bytes were read ahead).
        """
        me = self.here()
        if self.filling is not None or self.buffer or self.reading.locked():
            raise ValueError(f"{self!r} is not idle: what it has read would be lost to TLS")
        self.shaking = call(me, self.iostream.start_tls, server_side, ssl_options, server_hostname)
        try:
            self.iostream = await_(awaiting(self.shaking), timeout)  # a Task: when that ends, Tornado has closed
        except CancelledError as error:
            raise StreamClosedError from error
        self.shaking = None

    def close(self) -> None:
        """Close the stream; whoever reads or writes gets StreamClosedError. Parks: never. From: anywhere."""
        self.scheduler.call(self.shut)

    def shut(self) -> None:
        """Do what ``close`` does, in the thread of the stream."""
        if self.shaking is None:
            self.iostream.close()
        else:  # Tornado closes what it belongs to meanwhile
            self.shaking.cancel()


def connect(
    address: tuple[str, int],
    *,
    ssl_options: dict[str, Any] | ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    max_buffer_size: int | None = None,
    timeout: float | None = None,
) -> Stream:
    """Connect to a host and port; with ``ssl_options`` over TLS, in which that host is verified.

    Parks: while it connects. From: a dhaga, main code. Raises: OSError, TimeoutError, ssl.SSLError.
    """
    with Timeout(timeout):
        stream = Stream(call(current(), IOStream, dial(address), max_buffer_size))
        if ssl_options is not None:
            try:
                stream.start_tls(False, ssl_options, server_hostname or address[0])
            except BaseException:
                stream.close()
                raise
        return stream


def dial(address: tuple[str, int]) -> socket.socket:
    """Connect a socket for Tornado to use; cut short, none is left.

    Parks: while it connects. From: a dhaga, main code. Raises: OSError, TimeoutError.
    """
    with create_connection(address, None) as connected:
        family, kind = connected.family, connected.type
        return socket.socket(family, kind, fileno=connected.detach())
