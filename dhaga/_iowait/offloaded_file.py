"""``dhaga.open``: files whose blocking operations run in an OS thread while the calling dhaga is parked.

The layers are the standard library's own. At the bottom is a ``FileIO`` that offloads each system call, except for
reads of data that is in memory (``cached_reads.py``); the compiled buffer and text layers above do not know about it.
Each layer is called by one dhaga at a time (``file_state.py``). A system call under way is always finished, because its
effect on the file position cannot be undone; only waiting for a pipe, socket or terminal is cancelled at once.

Rejected: offloading the operations of the upper layers: each line would cost a hop to the pool.
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
"""Bytes that one system call moves by default. With hops to the pool, reads of 8 KB gave 37 MB/s, of 32 KB 186 MB/s, of
128 KB 776 MB/s, of 512 KB 844 MB/s. From cached data the same reads give 950, 2,460, 4,010 and 5,630 MB/s.
"""

LAYER_FLAGS = dict.fromkeys(map(ord, "bt"))
"""Characters of a mode that select layers; the others say how to open the file."""

READ_METHODS = ("read", "readline", "read1", "readinto", "readinto1", "readlines", "peek")
WRITE_METHODS = ("write", "writelines")
COMMON_METHODS = ("flush", "seek", "tell", "truncate", "detach")


def is_stream(kind: int) -> bool:
    """Return whether a mode is of a pipe, a socket, or an object of the kernel without a kind (an eventfd)."""
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or not stat.S_IFMT(kind)


@one_at_a_time("read", "readall", "readinto", "readline", "readlines", *WRITE_METHODS, "seek", "tell", "truncate")
class OffloadedFile(io.FileIO):
    """The raw file. First it waits until a pipe, terminal or socket is ready."""

    def __init__(self, file_state: FileState, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        kind = os.fstat(self.fileno()).st_mode
        if system.WAITS_FOR_FILES and (is_stream(kind) or (stat.S_ISCHR(kind) and self.isatty())):
            # Only these can block a pool thread forever; a disk is slow, but answers.
            file_state.watchers = FdWatchers(self.fileno(), limits_of_fd(self.fileno()))
        file_state.reads_cached = bool(cached_reads.NOWAIT) and stat.S_ISREG(kind)
        file_state.leaves_fd_open = not closefd
        self.file_state = file_state

    def read(self, size: int | None = -1, /) -> Any:
        if size is None or size < 0:
            return self.read_to_end()
        data = self.read_in_memory(size)
        if data is None:
            return self.read_by_thread(size)
        if 0 < len(data) < size and self.bytes_left():
            data += self.read_by_thread(size - len(data))  # a read of a file on disk is never short
        return data

    def read_in_memory(self, size: int) -> bytes | None:
        """Return cached data; None if it is not in memory, or larger than ``LARGEST``: a thread reads it then."""
        if not self.file_state.reads_cached or not 0 < size <= cached_reads.LARGEST or not self.readable():
            return None
        buffer = bytearray(size)
        count = self.file_state.read_cached(self.fileno(), buffer)
        return None if count is None else bytes(memoryview(buffer)[:count])

    def bytes_left(self) -> int:
        """Return the number of bytes from the position to the end, as the file system says."""
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
            # One byte more, to see the end.
            data = None
            if self.file_state.reads_cached and self.readable():
                data = self.read_in_memory(self.bytes_left() + 1)
                if data is not None and not self.bytes_left():
                    return data
            return (data or b"") + self.file_state.finish(super().read, -1)
        # FileIO.readall() would block in the pool between two writes of the peer; this parks between them.
        chunks = []
        while chunk := self.read(BUFFER_SIZE):
            chunks.append(chunk)
        return b"".join(chunks) if chunks else chunk

    def readinto(self, buffer: Any, /) -> Any:
        """Read cached data in place, and other data through a copy: an interrupted caller may free its buffer."""
        with memoryview(buffer) as whole, whole.cast("B") as view:
            if view.readonly:
                raise TypeError(f"readinto() needs memory that can be written, not {type(buffer).__name__}")
            if self.file_state.reads_cached and len(view) and self.readable():
                with view[: cached_reads.LARGEST] as part:
                    count = self.file_state.read_cached(self.fileno(), part)
                if count is not None:
                    return count
            data = self.read_by_thread(len(view))
            if not data:
                return data if data is None else 0
            view[: len(data)] = data
            return len(data)

    def write(self, data: Any, /) -> Any:
        """Write a copy of mutable data, as in ``readinto``. Returns: the number of bytes: all, in blocking mode."""
        copy, lock = data if type(data) is bytes else bytes(memoryview(data)), self.file_state
        if lock.watchers is None or lock.finalizing or not self.writable() or not os.get_blocking(self.fileno()):
            return lock.finish(super().write, copy)
        wait = partial(lock.wait_until, fd_ops.POLLOUT)
        with memoryview(copy) as octets, suppress(BlockingIOError):  # SO_SNDTIMEO
            return fd_ops.write_all(this_waiter(), self.fileno(), octets, wait, self.write_part)

    def write_part(self, octets: memoryview) -> int:
        """Write as much as does not block. Returns: the number of bytes; 0 if the buffer is full."""
        count = fd_ops.write_free_space(self.fileno(), octets)
        # More than PIPE_BUF could block a pool thread, out of reach of any cancel.
        return self.file_state.finish(super().write, bytes(octets[: fd_ops.PIPE_BUF])) if count is None else count

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        if whence in (os.SEEK_SET, os.SEEK_CUR):  # takes 0.3 µs and touches no disk; a hop would cost 200 times that
            return super().seek(position, whence)
        return self.file_state.finish(super().seek, position, whence)  # type: ignore[no-any-return]

    def truncate(self, size: int | None = None, /) -> int:
        return self.file_state.finish(super().truncate, size)  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            if self.file_state.watchers is not None:
                # Leave the pollers before the number can be reused.
                self.file_state.watchers.close()
            self.file_state.finish(super().close)


def new_raw_file(file_state: FileState, file: Any, mode: str, closefd: bool, opener: Opener | None) -> OffloadedFile:
    """Open the raw file for a mode of ``open``."""
    kind = outside.offloaded_file or OffloadedFile
    return kind(file_state, file, mode.translate(LAYER_FLAGS), closefd, opener)


@one_at_a_time(*READ_METHODS, *COMMON_METHODS)
class BufferedReader(io.BufferedReader):
    """Source: ``io.BufferedReader``."""

    file_state: FileState


@one_at_a_time(*WRITE_METHODS, *COMMON_METHODS)
class BufferedWriter(io.BufferedWriter):
    """Source: ``io.BufferedWriter``."""

    file_state: FileState


@one_at_a_time(*READ_METHODS, *WRITE_METHODS, *COMMON_METHODS)
class BufferedRandom(io.BufferedRandom):
    """Source: ``io.BufferedRandom``."""

    file_state: FileState


@one_at_a_time("read", "readline", "readlines", "reconfigure", *WRITE_METHODS, *COMMON_METHODS)
class TextFile(io.TextIOWrapper):
    """Source: ``io.TextIOWrapper``; in addition ``tell`` works within a loop. It reads one buffer's size at a time."""

    file_state: FileState

    def __next__(self) -> str:  # type: ignore[override]
        """Return the next line. The compiled method disables ``tell``, and changes that state outside the lock."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line


def check_mode(mode: str, buffering: int, text_options: tuple[str | None, ...]) -> None:
    """Raises: TypeError, ValueError for arguments that the standard ``open`` refuses."""
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
        buffered.file_state = raw.file_state
        if "b" in mode:
            return buffered
        # Line buffering for terminals, as in the standard.
        by_line = buffering == 1 or (buffering < 0 and raw.isatty())
        text = TextFile(buffered, encoding, errors, newline, by_line)
        text.file_state = raw.file_state
        text.mode = mode  # type: ignore[misc]
        # By default it asks for 8 KB at a time, and read1() of an empty buffer passes that size on: sixteen hops
        # instead of one.
        text._CHUNK_SIZE = size  # type: ignore[attr-defined]
        return text
    except BaseException:
        # Until open() returns them, no other reference would close the fd.
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

    Parks: while a system call runs in an OS thread (``offload``, through ``pool``); operations that the buffer or, on
    Linux, the page cache serves never park, except to let others run. CPU time (benchmarks/offload.py): 0.24 µs for
    each of a million lines, where the standard ``open`` takes 0.05 µs; 0.25 µs for a write, where it takes 0.07 µs. An
    operation under way is finished before the next one starts; a cancel that arrives meanwhile is raised by the next
    one. Waiting for a pipe, terminal or socket is cancelled at once. In a plain thread it equals ``open``.
    """
    check_mode(mode, buffering, (encoding, errors, newline))
    if pool is not None and not isinstance(pool, OffloadPool):
        raise TypeError(f"pool must be an OffloadPool, not {pool!r}")
    file_state = FileState(pool or shared)
    if "b" not in mode:
        # Resolved here, so that an EncodingWarning names the line that called open().
        encoding = io.text_encoding(encoding)

    def make() -> Any:
        raw = new_raw_file(file_state, file, mode, closefd, opener)
        return stack_layers(raw, mode, buffering, encoding, errors, newline)

    return offload_open(file_state.pool, make, methodcaller("close"))
