"""Blocking-style reads and writes over Tornado's ``IOStream`` and ``SSLIOStream``, for code that shares them with
Tornado.

All reads use only one kind of Tornado read: the next bytes, in any number. A Tornado read cannot be cancelled.
So it outlives a cancelled reader (``pending_read``); its bytes go to ``buffer``, which serves the next reader of any
kind. A Tornado read for a line could not serve a next reader that asks for five bytes.

A Stream is *open*, in a *handshake* (``handshake`` is set: reads and writes are refused), or *closed*. Any number of
dhagas of one OS thread may use it: readers queue for ``read_lock``; Tornado queues the writes. ``close`` may be called
anywhere.

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

from ._kernel.api import Timeout, current
from ._kernel.faces.arguments import check_seconds
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.run.main_code import Main
from ._kernel.run.microthread import Dhaga
from ._kernel.run.scheduler import Scheduler
from ._sync.lock import Lock
from .aio._await import as_coroutine, await_
from .socket import create_connection

T = TypeVar("T")

CHUNK = 65536
"""Bytes that one read asks for: Tornado's own ``read_chunk_size``."""

Position = Callable[[bytearray, int], int | None]
"""Given the buffer, and how much of it was searched before, returns the end of the data to read; None: read on."""


class FutureWait:
    """Wait target of a waiter parked on a Future that may outlive the wait."""

    __slots__ = ("future", "me")

    def __init__(self, me: Dhaga | Main, future: Future[Any]) -> None:
        self.me: Dhaga[Any] | Main = me
        self.future: Future[Any] = future

    def wait(self, reason: str) -> Any:
        """Park until the Future is done. Returns, Raises: what it holds."""
        if not self.future.done():
            self.me.prepare_park(reason, self)
            self.future.add_done_callback(self.on_done)
            self.me.park_until_woken()
        return self.future.result()

    def on_done(self, _: object) -> None:
        """Wake the waiter. From: a callback of the loop."""
        self.me.scheduler.wake_in_callback(self.me)

    def _remove(self, waiter: object) -> bool:
        """Undo the park. Returns: False if the Future is done, with its callback under way."""
        return self.future.remove_done_callback(self.on_done) > 0


def call_within(timeout: float | None, fn: Callable[..., T], *args: Any) -> T:
    """Call a function, in a Timeout if there is one: a Timeout of None would cost 2 of the 50 µs of a round trip."""
    if timeout is None:
        return fn(*args)
    with Timeout(timeout):
        return fn(*args)


@refuse_async_with()
class Stream:
    """An ``IOStream`` that is read and written like a blocking file, by any number of dhagas of one OS thread.

    Readers are served in FIFO order, and so are writers. A read cut short by a cancel or timeout consumes nothing: the
    bytes are for the next reader. The data of a write are written in any case.
    """

    def __init__(self, iostream: Any) -> None:
        """Wrap an IOStream of this scheduler's loop, or one made over a connected standard socket."""
        self.scheduler: Scheduler = current().scheduler
        if not isinstance(iostream, IOStream):
            iostream = self.scheduler.call_as_callback(IOStream, iostream)
        self.iostream: Any = iostream
        if iostream.io_loop.asyncio_loop is not self.scheduler.loop:
            raise RuntimeError(
                f"{iostream!r} belongs to another loop. A dhaga sees no running one, from which Tornado would take its "
                "own:\ngive Stream the socket, or make the IOStream in a coroutine on the loop of the dhaga's scheduler"
            )
        self.buffer: bytearray = bytearray()
        self.pending_read: Future[bytes] | None = None
        self.handshake: Future[Any] | None = None  # a finished handshake has failed, and the socket is closed
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
        """Return the caller. Raises: RuntimeError from another scheduler, and during a handshake; ParkError.

        Also StreamClosedError if the handshake has failed.
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
        """Read ``num_bytes`` bytes; with ``partial``, as many of them as arrive first.

        Parks: while they are missing (``stream.read``). From: a dhaga or main code of its thread. Beyond
        ``max_buffer_size`` the stream is closed. Raises: StreamClosedError (its ``real_error`` has the cause),
        TimeoutError.
        """
        if num_bytes < 0:
            raise ValueError(f"read_bytes needs a number of bytes that is not negative: {num_bytes}")
        least = min(num_bytes, 1) if partial else num_bytes
        return self.read(lambda data, _: min(len(data), num_bytes) if len(data) >= least else None, timeout)

    def read_into(self, buf: Any, partial: bool = False, timeout: float | None = None) -> int:
        """Fill a writable buffer; with ``partial``, a first part of it. Returns: its size. See ``read_bytes``."""
        with memoryview(buf).cast("B") as view:
            if view.readonly:
                raise TypeError(f"read_into needs a buffer that can be written into, not {type(buf).__name__}")
            data = self.read_bytes(len(view), partial, timeout)
            view[: len(data)] = data
        return len(data)

    def read_until(self, delimiter: bytes, max_bytes: int | None = None, timeout: float | None = None) -> bytes:
        """Read up to and including ``delimiter``. If it is not within ``max_bytes``, the stream is closed, as in
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
        """Read up to the end of the first match; see ``read_until``."""
        pattern = re.compile(regex)

        def end_of(data: bytearray, _: int) -> int | None:
            found = pattern.search(data)
            return self.check_limit(max_bytes, None if found is None else found.end(), regex)

        return self.read(end_of, timeout)

    def read_until_close(self, timeout: float | None = None) -> bytes:
        """Read until the peer closes. An error is raised, and the received bytes stay in the buffer.

        A reset is an error here; Tornado treats it as an end.
        """
        try:
            return self.read(lambda _, __: None, timeout)
        except StreamClosedError as error:
            if error.real_error is not None:
                raise
            return self.take(len(self.buffer))

    def check_limit(self, max_bytes: int | None, end: int | None, wanted: bytes) -> int | None:
        """Return ``end``. Raises: UnsatisfiableReadError if it lies, or must lie, beyond ``max_bytes``."""
        if max_bytes is not None and (len(self.buffer) if end is None else end) > max_bytes:
            raise UnsatisfiableReadError(f"{wanted!r} is not within {max_bytes} bytes")
        return end

    def read(self, end_of: Position, timeout: float | None) -> bytes:
        """Fill the buffer until ``end_of`` finds the end of the read, and return the bytes up to it."""
        return call_within(timeout, self.read_locked, end_of)

    def read_locked(self, end_of: Position) -> bytes:
        """Read as ``read`` does, under the read lock."""
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
        # One copy instead of two: a slice of a bytearray is a bytearray.
        with memoryview(self.buffer) as view:
            data = bytes(view[:count])
        del self.buffer[:count]
        return data

    # ---- writing

    def write(self, data: Any, timeout: float | None = None) -> None:
        """Write all of ``data``, after earlier writes.

        Parks: until the operating system has it (``stream.write``). From: see ``read_bytes``. A cancel or timeout ends
        the wait, not the write; only ``close`` stops the write. Raises: StreamClosedError, TimeoutError,
        StreamBufferFullError.
        """
        check_seconds(timeout)
        me = self.check_caller()
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

        Parks: ``await``. From: see ``read_bytes``. Raises: ssl.SSLError, StreamClosedError, TimeoutError, RuntimeError
        (a handshake is under way), ValueError (a read or write is under way, or bytes were read ahead).
        """
        check_seconds(timeout)
        me = self.check_caller()
        if self.pending_read is not None or self.buffer or self.read_lock.locked():
            raise ValueError(f"{self!r} is not idle: the bytes that it has read would be lost to TLS")
        self.handshake = me.scheduler.call_as_callback(
            self.iostream.start_tls, server_side, ssl_options, server_hostname
        )
        try:
            # In a Task: when the Task has ended, also by a cancel, Tornado has closed the stream.
            self.iostream = await_(as_coroutine(self.handshake), timeout)
        except CancelledError as error:
            raise StreamClosedError from error
        self.handshake = None

    def close(self) -> None:
        """Close the stream; its readers and writers get StreamClosedError. Parks: never. From: any thread."""
        self.scheduler.call(self.close_in_thread)

    def close_in_thread(self) -> None:
        """Close the stream. From: its own OS thread."""
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
    """Connect to a host and port; with ``ssl_options`` over TLS, which verifies that host.

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


def dial(address: tuple[str, int]) -> socket.socket:
    """Return a connected standard socket for Tornado; after a cancel none is left open.

    Parks: while connecting. From: a dhaga, main code. Raises: OSError, TimeoutError.
    """
    with create_connection(address, None) as connected:
        family, kind = connected.family, connected.type
        return socket.socket(family, kind, fileno=connected.detach())
