"""``dhaga.open``: opens files whose blocking operations run in an OS thread while the calling dhaga is parked.

The buffer and text layers are the standard library's. Below them is a ``FileIO`` that offloads each system call, except
for reads of data that is in memory (``cached_reads.py``). Only one dhaga at a time uses the layers (``file_state.py``).
A started system call is always finished, because its effect on the file position cannot be undone. Only a wait for a
pipe, socket or terminal is cancelled at once.

Rejected: offloading the operations of the upper layers, because each line would then cost a hop to the pool.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import methodcaller
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, TypeAlias, overload

from .._kernel import outside
from .._kernel.platform.system import system
from .._kernel.run.fd_watch import FdWatchers
from .._kernel.run.turn_budget import yield_uncancelled_if_due
from .._kernel.wait.current import this_waiter
from .._workers.offload import OffloadPool, shared
from . import cached_reads, fd_ops
from .file_state import FileState, one_at_a_time
from .kernel_limits import limits_of_fd
from .pending_open import offload_open

if TYPE_CHECKING:
    from _typeshed import (
        FileDescriptorOrPath,
        OpenBinaryMode,
        OpenBinaryModeReading,
        OpenBinaryModeUpdating,
        OpenBinaryModeWriting,
        OpenTextMode,
    )

Opener: TypeAlias = Callable[[str, int], int]

BUFFER_SIZE = 128 * 1024
"""Number of bytes that one system call moves by default. Reads of 8, 32, 128 and 512 KB achieved 37, 186, 776 and 844
MB/s with hops to the pool, and 950, 2,460, 4,010 and 5,630 MB/s from the page cache.
"""

LAYER_FLAGS = dict.fromkeys(map(ord, "bt"))
"""Characters of ``mode`` that select the layers; the other characters determine how the raw file is opened."""

READ_METHODS = ("read", "readline", "read1", "readinto", "readinto1", "readlines", "peek")
WRITE_METHODS = ("write", "writelines")
COMMON_METHODS = ("flush", "seek", "tell", "truncate")


def is_stream(kind: int) -> bool:
    """Return whether a file's ``st_mode`` means a pipe, a socket, or an object without a file type (an eventfd)."""
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or not stat.S_IFMT(kind)


@one_at_a_time("read", "readall", "readinto", "readline", "readlines", *WRITE_METHODS, "seek", "tell", "truncate")
class OffloadedFile(io.FileIO):
    """The raw file, which offloads system calls. On a pipe, terminal or socket, it first waits for readiness."""

    def __init__(self, file_state: FileState, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        kind = os.fstat(self.fileno()).st_mode
        if system.WAITS_FOR_FILES and (is_stream(kind) or (stat.S_ISCHR(kind) and self.isatty())):
            # Only these kinds of files can block a pool thread forever; a slow disk answers eventually.
            file_state.watchers = FdWatchers(self.fileno(), limits_of_fd(self.fileno()))
        file_state.reads_cached = bool(cached_reads.NOWAIT) and stat.S_ISREG(kind)
        file_state.leaves_fd_open = not closefd
        self.file_state: FileState
        file_state.set_top(self)

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < 0:
            return self.read_to_end()
        data = self.read_in_memory(size)
        if data is None:
            return self.read_by_thread(size)
        if 0 < len(data) < size and self.bytes_left():
            data += self.read_by_thread(size - len(data))  # reads of disk files must not be short
        return data

    def read_in_memory(self, size: int) -> bytes | None:
        """Return cached data; None if a thread must read the data, because it is not in memory or too large."""
        if not self.file_state.reads_cached or not 0 < size <= cached_reads.LARGEST or not self.readable():
            return None
        buffer = bytearray(size)
        count = self.read_cached(buffer)
        return None if count is None else bytes(memoryview(buffer)[:count])

    def read_cached(self, buffer: Any) -> int | None:
        """Read cached data into a buffer. Returns: the number of bytes; None if a thread must read the data.

        Parks: ``sleep``, if the caller's turn is over; the next operation raises a cancel that arrives meanwhile.
        Raises: ParkError in a coroutine even if the data is cached, so that the error does not depend on the page
        cache.
        """
        if self.file_state.finalizing:
            return None
        this_waiter()
        if yield_uncancelled_if_due():
            self.file_state.keep_late_cancel()
        try:
            return cached_reads.read_cached(self.fileno(), buffer)
        except cached_reads.Refused:
            self.file_state.reads_cached = False
            return None

    def bytes_left(self) -> int:
        """Return the number of bytes from the position to the end of the file, according to the file's status."""
        return os.fstat(self.fileno()).st_size - super().tell()

    def read_by_thread(self, size: int) -> Any:
        try:
            if self.file_state.watchers is not None and self.readable() and size:
                self.file_state.wait_until(fd_ops.POLLIN)
        except BlockingIOError:  # SO_RCVTIMEO
            return None
        return self.file_state.finish(super().read, size)

    def readall(self) -> Any:
        return self.read()

    def read_to_end(self) -> Any:
        if self.file_state.watchers is None:
            # Request one byte more, to detect the end.
            data = None
            if self.file_state.reads_cached and self.readable():
                data = self.read_in_memory(self.bytes_left() + 1)
                if data is not None and not self.bytes_left():
                    return data
            return (data or b"") + self.file_state.finish(super().read, -1)
        # Between two writes of the peer, FileIO.readall() would block a pool thread, but read() parks.
        chunks = []
        while chunk := self.read(BUFFER_SIZE):
            chunks.append(chunk)
        return b"".join(chunks) if chunks else chunk

    def readinto(self, buffer: Any, /) -> Any:
        """Read cached data directly, and other data through a copy: an interrupted caller may free the buffer."""
        with memoryview(buffer) as whole, whole.cast("B") as view:
            if view.readonly:
                raise TypeError(f"readinto() needs memory that can be written, not {type(buffer).__name__}")
            if self.file_state.reads_cached and len(view) and self.readable():
                with view[: cached_reads.LARGEST] as part:
                    count = self.read_cached(part)
                if count is not None:
                    if 0 < count < len(view) and self.bytes_left():
                        count += self.read_rest(view[count:]) or 0
                    return count
            return self.read_rest(view)

    def read_rest(self, view: memoryview) -> Any:
        """Read into a view by a thread. Returns: the number of bytes; None if no data came in time."""
        with view:
            data = self.read_by_thread(len(view))
            if data:
                view[: len(data)] = data
            return data if data is None else len(data)

    def write(self, data: Any, /) -> Any:
        """Write data, after copying mutable data. Returns: the number of bytes written; in blocking mode, all bytes."""
        copy, lock = data if type(data) is bytes else bytes(memoryview(data)), self.file_state
        if lock.watchers is None or lock.finalizing or not self.writable() or not os.get_blocking(self.fileno()):
            return lock.finish(super().write, copy)
        wait = partial(lock.wait_until, fd_ops.POLLOUT)
        with memoryview(copy) as octets, suppress(BlockingIOError):  # SO_SNDTIMEO
            return fd_ops.write_all(this_waiter(), self.fileno(), octets, wait, self.write_part)

    def write_part(self, octets: memoryview) -> int:
        """Write as much as possible without blocking. Returns: the number of bytes; 0 if the buffer is full."""
        count = fd_ops.write_free_space(self.fileno(), octets)
        # More than PIPE_BUF bytes could block a pool thread, which no cancel can interrupt.
        return self.file_state.finish(super().write, bytes(octets[: fd_ops.PIPE_BUF])) if count is None else count

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        if whence in (os.SEEK_SET, os.SEEK_CUR):  # takes 0.3 µs without disk access; a hop would take 60 µs
            return super().seek(position, whence)
        return self.file_state.finish(super().seek, position, whence)  # type: ignore[no-any-return]

    def truncate(self, size: int | None = None, /) -> int:
        return self.file_state.finish(super().truncate, size)  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            if self.file_state.watchers is not None:
                # Remove the fd from the pollers before its number can be reused.
                self.file_state.watchers.close()
            self.file_state.finish(super().close)


def new_raw_file(file_state: FileState, file: Any, mode: str, closefd: bool, opener: Opener | None) -> OffloadedFile:
    """Open the raw file for a call of ``open``. The characters of ``mode`` that select the layers are removed."""
    kind = outside.offloaded_file or OffloadedFile
    return kind(file_state, file, mode.translate(LAYER_FLAGS), closefd, opener)


@one_at_a_time(*READ_METHODS, *COMMON_METHODS)
class BufferedReader(io.BufferedReader):
    """A buffered reader with the file's lock. Source: ``io.BufferedReader``."""

    file_state: FileState


@one_at_a_time(*WRITE_METHODS, *COMMON_METHODS)
class BufferedWriter(io.BufferedWriter):
    """A buffered writer with the file's lock. Source: ``io.BufferedWriter``."""

    file_state: FileState


@one_at_a_time(*READ_METHODS, *WRITE_METHODS, *COMMON_METHODS)
class BufferedRandom(io.BufferedRandom):
    """A buffer for reading and writing, with the file's lock. Source: ``io.BufferedRandom``."""

    file_state: FileState


@one_at_a_time("read", "readline", "readlines", "reconfigure", *WRITE_METHODS, *COMMON_METHODS)
class TextFile(io.TextIOWrapper):
    """A text layer with the file's lock. Source: ``io.TextIOWrapper``; ``tell`` also works during an iteration."""

    file_state: FileState

    def __next__(self) -> str:  # type: ignore[override]
        """Return the next line. The standard method would disable ``tell``, and would not acquire the lock."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line


def check_mode(mode: str, buffering: int, text_options: tuple[str | None, ...]) -> None:
    """Check the arguments of ``open``. Raises: TypeError, ValueError if the standard ``open`` would refuse them."""
    if not isinstance(mode, str) or not isinstance(buffering, int):
        raise TypeError(f"open() needs a mode and a size of the buffer, not {mode!r} and {buffering!r}")
    kinds = set(mode)
    if len(kinds) < len(mode) or kinds - set("rwaxbt+"):
        raise ValueError(f"invalid mode: {mode!r}")
    if len(kinds & set("rwax")) != 1 or {"b", "t"} <= kinds:
        raise ValueError(f"a mode is one create/read/write/append mode (x, r, w, a), b or t, and may have +: {mode!r}")
    if "b" not in kinds and buffering == 0:
        raise ValueError("can't have unbuffered text I/O")
    if "b" in kinds and any(option is not None for option in text_options):
        raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
    if "b" in kinds and buffering == 1:
        warnings.warn("line buffering isn't supported in binary mode, the default size is used", RuntimeWarning, 3)


def stack_layers(
    raw: OffloadedFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """Return the file object for this mode: the raw file, a buffer over it, or text over that buffer."""
    if buffering == 0:
        return raw
    size = buffering if buffering > 1 else BUFFER_SIZE
    try:
        buffered = (BufferedRandom if "+" in mode else BufferedReader if "r" in mode else BufferedWriter)(raw, size)
        raw.file_state.set_top(buffered)
        if "b" in mode:
            return buffered
        # As with the standard open(), terminals are line-buffered.
        by_line = buffering == 1 or (buffering < 0 and raw.isatty())
        text = TextFile(buffered, encoding, errors, newline, by_line)
        raw.file_state.set_top(text)
        text.mode = mode  # type: ignore[misc]
        # The default chunk is 8 KB, and read1() of an empty buffer reads only one chunk. Reading 128 KB would then take
        # 16 hops instead of one.
        text._CHUNK_SIZE = size  # type: ignore[attr-defined]
        return text
    except BaseException:
        # The caller has no reference to the file yet, so close the fd here.
        raw.close()
        raise


# The overloads of the standard ``open``.
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenTextMode = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> io.TextIOWrapper: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: Literal[0],
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> io.FileIO: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeUpdating,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> io.BufferedRandom: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeWriting,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> io.BufferedWriter: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeReading,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> io.BufferedReader: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> BinaryIO: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> IO[Any]: ...
def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
    *,
    pool: OffloadPool | None = None,
) -> IO[Any]:
    """Open a file whose blocking operations park instead of blocking other dhagas. Source: ``open``.

    Parks: while a system call runs in an OS thread of ``pool`` (``offload``). Operations that need only the buffer or,
    on Linux, the page cache do not park, except to end an overlong turn. CPU time (benchmarks/offload.py): reading a
    line takes 0.24 µs instead of the standard 0.05 µs, and a write 0.25 µs instead of 0.07 µs. A started operation is
    always finished; the next operation raises a cancel that arrives meanwhile. Waiting for a pipe, terminal or socket
    is cancelled at once. In a plain OS thread, the operations block, as with the standard ``open``.
    """
    check_mode(mode, buffering, (encoding, errors, newline))
    if pool is not None and not isinstance(pool, OffloadPool):
        raise TypeError(f"pool must be an OffloadPool, not {pool!r}")
    file_state = FileState(pool or shared)
    if "b" not in mode:
        # Resolve the encoding here, so that an EncodingWarning names the line that called open().
        encoding = io.text_encoding(encoding)

    def make() -> Any:
        raw = new_raw_file(file_state, file, mode, closefd, opener)
        return stack_layers(raw, mode, buffering, encoding, errors, newline)

    return offload_open(file_state.pool, make, methodcaller("close"))
