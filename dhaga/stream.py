"""Stream: blocking-style reads and writes over Tornado's ``IOStream``, for code that shares IOStreams with Tornado.

Every read of a Stream requests the same from Tornado: the next bytes, in any number. A Tornado read cannot be
cancelled. If a reader of the Stream is cancelled, the Tornado read continues as ``pending_read``. Its bytes go to
``buffer``, which serves any later reader. If a Tornado read for a line were pending, it could not serve a later reader
that requests five bytes.

A Stream is *open*, in a *handshake* (``handshake`` is set, and reads and writes are refused), or *closed*. Any number
of dhagas of one OS thread may use a Stream: readers queue for ``read_lock``, and Tornado queues the writes. ``close``
may be called from any thread.

The sockets of ``socket.py`` are faster.
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

from ._kernel.api import current
from ._kernel.faces.arguments import check_seconds
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.run.main_code import Main
from ._kernel.run.microthread import Dhaga
from ._kernel.run.scheduler import Scheduler
from ._kernel.timeout import Timeout
from ._sync.lock import Lock
from .aio._await import as_coroutine, await_
from .socket import create_connection

T = TypeVar("T")

CHUNK = 65536
"""Number of bytes that one read requests, equal to Tornado's ``read_chunk_size``."""

Position = Callable[[bytearray, int], int | None]
"""A function that returns the end of the requested data, or None to read more. Its arguments are the buffer and the
length of its first part, in which an earlier call has found no end.
"""


class FutureWait:
    """The wait target of a waiter that is parked until a Future is done. The Future may outlive the wait."""

    __slots__ = ("future", "me")

    def __init__(self, me: Dhaga | Main, future: Future[Any]) -> None:
        self.me: Dhaga[Any] | Main = me
        self.future: Future[Any] = future

    def wait(self, reason: str) -> Any:
        """Park until the Future is done. Returns, Raises: the Future's result or error."""
        if not self.future.done():
            self.me.prepare_park(reason, self)
            self.future.add_done_callback(self.on_done)
            self.me.park_until_woken()
        return self.future.result()

    def on_done(self, _: object) -> None:
        """Wake the waiter. From: a callback of the loop."""
        self.me.scheduler.wake_in_callback(self.me)

    def _remove(self, waiter: object) -> bool:
        """Undo the park. Returns: False if the Future is done and its callback is scheduled."""
        return self.future.remove_done_callback(self.on_done) > 0


def call_within(timeout: float | None, fn: Callable[..., T], *args: Any) -> T:
    """Call a function, in a Timeout if ``timeout`` is set. An empty Timeout would cost 2 µs of a round trip's 50 µs."""
    if timeout is None:
        return fn(*args)
    with Timeout(timeout):
        return fn(*args)


@refuse_async_with()
class Stream:
    """An ``IOStream`` that is read and written like a blocking file, by any number of dhagas of one OS thread.

    Readers are served in FIFO order, as are writers. A read that a cancel or timeout interrupts consumes nothing: the
    next reader gets the bytes. A cancel or timeout ends the wait for a write, but the data is still written.
    """

    def __init__(self, iostream: Any) -> None:
        """Wrap an IOStream of this scheduler's loop, or a connected standard socket."""
        self.scheduler: Scheduler = current().scheduler
        if not isinstance(iostream, IOStream):
            iostream = self.scheduler.call_as_callback(IOStream, iostream)
        self.iostream: Any = iostream
        if iostream.io_loop.asyncio_loop is not self.scheduler.loop:
            raise RuntimeError(
                f"{iostream!r} belongs to another loop. In a dhaga, Tornado finds no running loop, and uses "
                "another:\ngive Stream the socket, or make the IOStream in a coroutine on the loop of the dhaga's "
                "scheduler"
            )
        self.buffer: bytearray = bytearray()
        self.pending_read: Future[bytes] | None = None
        self.handshake: Future[Any] | None = None  # done: the handshake has failed, and the socket is closed
        self.read_lock: Lock = Lock()

    def __repr__(self) -> str:
        state = "closed" if self.closed() else "open"
        return f"<Stream {state}, {len(self.buffer)} bytes read ahead>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None) -> None:
        self.close()

    def closed(self) -> bool:
        """Return whether the stream is closed, or its handshake has failed."""
        return self.iostream.closed() or (self.handshake is not None and self.handshake.done())

    def check_caller(self) -> Dhaga | Main:
        """Return the caller. Raises: RuntimeError from another scheduler or during a handshake; ParkError.

        Also raises StreamClosedError if the handshake has failed.
        """
        me = current()
        if me.scheduler is not self.scheduler:
            raise RuntimeError(f"{self!r} lives in {self.scheduler!r}: only close() may be called from elsewhere")
        if self.handshake is not None:
            if self.handshake.done():
                raise StreamClosedError
            raise RuntimeError(f"{self!r} is in start_tls: read and write when that has returned")
        return me

    # ---- reading

    def read_bytes(self, num_bytes: int, partial: bool = False, timeout: float | None = None) -> bytes:
        """Read ``num_bytes`` bytes; with ``partial``, return as soon as at least one byte is available.

        Parks: until the bytes have arrived (``stream.read``). From: a dhaga or main code of the stream's thread. The
        stream is closed if ``max_buffer_size`` is exceeded. Raises: StreamClosedError (its ``real_error`` has the
        cause), TimeoutError.
        """
        if num_bytes < 0:
            raise ValueError(f"read_bytes needs a number of bytes that is not negative: {num_bytes}")
        least = min(num_bytes, 1) if partial else num_bytes
        return self.read(lambda data, _: min(len(data), num_bytes) if len(data) >= least else None, timeout)

    def read_into(self, buf: Any, partial: bool = False, timeout: float | None = None) -> int:
        """Fill a buffer; with ``partial``, read at least one byte. Returns: the number of bytes. See ``read_bytes``."""
        with memoryview(buf).cast("B") as view:
            if view.readonly:
                raise TypeError(f"read_into needs a buffer that can be written into, not {type(buf).__name__}")
            data = self.read_bytes(len(view), partial, timeout)
            view[: len(data)] = data
        return len(data)

    def read_until(self, delimiter: bytes, max_bytes: int | None = None, timeout: float | None = None) -> bytes:
        """Read up to and including ``delimiter``. Close the stream if the delimiter is not within ``max_bytes``, as in
        Tornado.

        Parks, From, Raises: see ``read_bytes``.
        """
        if not delimiter:
            raise ValueError("read_until needs a delimiter of at least one byte")

        def end_of(data: bytearray, seen: int) -> int | None:
            at = data.find(delimiter, max(0, seen - len(delimiter) + 1))
            return self.check_limit(max_bytes, None if at < 0 else at + len(delimiter), delimiter)

        return self.read(end_of, timeout)

    def read_until_regex(self, regex: bytes, max_bytes: int | None = None, timeout: float | None = None) -> bytes:
        """Read up to the end of the first match of ``regex``; see ``read_until``."""
        pattern = re.compile(regex)

        def end_of(data: bytearray, _: int) -> int | None:
            found = pattern.search(data)
            return self.check_limit(max_bytes, None if found is None else found.end(), regex)

        return self.read(end_of, timeout)

    def read_until_close(self, timeout: float | None = None) -> bytes:
        """Read until the peer closes the connection. After an error, the received bytes stay in the buffer.

        A reset connection is an error here; Tornado treats a reset as the end of the data.
        """
        try:
            return self.read(lambda _, __: None, timeout)
        except StreamClosedError as error:
            if error.real_error is not None:
                raise
            return self.take(len(self.buffer))

    def check_limit(self, max_bytes: int | None, end: int | None, wanted: bytes) -> int | None:
        """Return ``end``. Raises: UnsatisfiableReadError if the end is, or must be, beyond ``max_bytes``."""
        if max_bytes is not None and (len(self.buffer) if end is None else end) > max_bytes:
            raise UnsatisfiableReadError(f"{wanted!r} is not within {max_bytes} bytes")
        return end

    def read(self, end_of: Position, timeout: float | None) -> bytes:
        """Fill the buffer until ``end_of`` finds the end of the data, and return the bytes up to that end."""
        return call_within(timeout, self.read_locked, end_of)

    def read_locked(self, end_of: Position) -> bytes:
        """Acquire the read lock, read as ``read`` does, and release the lock."""
        me = self.check_caller()
        with self.read_lock:
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
        """Add the next bytes to the buffer. Raises: StreamClosedError, StreamBufferFullError."""
        if len(self.buffer) >= self.iostream.max_buffer_size:
            raise StreamBufferFullError("Reached maximum read buffer size")
        if self.pending_read is None:
            self.pending_read = me.scheduler.call_as_callback(self.iostream.read_bytes, CHUNK, True)
        try:
            self.buffer += FutureWait(me, self.pending_read).wait("stream.read")
        finally:
            if self.pending_read.done():
                self.pending_read = None

    def take(self, count: int) -> bytes:
        """Remove and return the first ``count`` bytes of the buffer."""
        # A memoryview saves a copy, because a slice of a bytearray is another bytearray.
        with memoryview(self.buffer) as view:
            data = bytes(view[:count])
        del self.buffer[:count]
        return data

    # ---- writing

    def write(self, data: Any, timeout: float | None = None) -> None:
        """Write all of ``data`` after earlier writes.

        Parks: until the operating system has accepted the data (``stream.write``). From: see ``read_bytes``. A cancel
        or timeout ends the wait but not the write; only ``close`` stops the write. Raises: StreamClosedError,
        TimeoutError, StreamBufferFullError.
        """
        check_seconds(timeout)
        me = self.check_caller()
        if not isinstance(data, bytes):
            data = stable_bytes(data)
        future = me.scheduler.call_as_callback(self.iostream.write, data)
        call_within(timeout, FutureWait(me, future).wait, "stream.write")

    # ---- the connection

    def start_tls(
        self,
        server_side: bool = False,
        ssl_options: dict[str, Any] | ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Switch to TLS with a handshake; if it fails or is interrupted, the stream is closed.

        Parks: ``await``. From: see ``read_bytes``. Raises: ssl.SSLError, StreamClosedError, TimeoutError; RuntimeError
        during a handshake; ValueError during a read or write, or if bytes were read ahead.
        """
        check_seconds(timeout)
        me = self.check_caller()
        if self.pending_read is not None or self.buffer or self.read_lock.locked():
            raise ValueError(f"{self!r} is not idle: the bytes that it has read would be lost to TLS")
        self.handshake = me.scheduler.call_as_callback(
            self.iostream.start_tls, server_side, ssl_options, server_hostname
        )
        try:
            # Wait in a Task. When the Task ends, even after a cancel, Tornado has already closed the stream of a failed
            # handshake.
            self.iostream = await_(as_coroutine(self.handshake), timeout)
        except CancelledError as error:
            raise StreamClosedError from error
        self.handshake = None

    def close(self) -> None:
        """Close the stream; its readers and writers get StreamClosedError. Parks: never. From: any thread."""
        self.scheduler.call(self.close_in_thread)

    def close_in_thread(self) -> None:
        """Close the stream. From: the stream's OS thread."""
        if self.handshake is None:
            self.iostream.close()
        else:  # Tornado closes the stream of a cancelled handshake
            self.handshake.cancel()


def connect(
    address: tuple[str, int],
    *,
    ssl_options: dict[str, Any] | ssl.SSLContext | None = None,
    server_hostname: str | None = None,
    max_buffer_size: int | None = None,
    timeout: float | None = None,
) -> Stream:
    """Connect to a host and port; with ``ssl_options``, use TLS and verify the host.

    Parks: while connecting. From: a dhaga, main code. Raises: OSError, TimeoutError, ssl.SSLError.
    """
    with Timeout(timeout):
        stream = Stream(current().scheduler.call_as_callback(IOStream, dial(address), max_buffer_size))
        if ssl_options is not None:
            try:
                stream.start_tls(False, ssl_options, server_hostname or address[0])
            except BaseException:
                stream.close()
                raise
        return stream


def stable_bytes(data: Any) -> bytes | memoryview:
    """Return the bytes of a buffer, and copy them unless the buffer is read-only and contiguous.

    Tornado counts items instead of bytes, and keeps large buffers without a copy. The caller may reuse the buffer after
    a timeout, while the data is still being written. Raises: TypeError.
    """
    view = memoryview(data)
    return view.cast("B") if view.readonly and view.c_contiguous else view.tobytes()


def dial(address: tuple[str, int]) -> socket.socket:
    """Return a connected standard socket for Tornado. After a cancel no socket is left open.

    Parks: while connecting. From: a dhaga, main code. Raises: OSError, TimeoutError.
    """
    with create_connection(address, None) as connected:
        family, kind = connected.family, connected.type
        return socket.socket(family, kind, fileno=connected.detach())
