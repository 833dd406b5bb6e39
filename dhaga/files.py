"""Files whose blocking operations are made in an OS thread while the calling dhaga is parked: ``dhaga.open``.

The layers are the standard library's own. At the bottom stands a ``FileIO`` that offloads; the compiled buffers and the
text layer above it do not know, and get one operation at a time (``turns.py``).

Rejected: to offload the operations of the upper layers, where each line would cost a hop.
"""

from __future__ import annotations

import io
import os
import stat
import warnings
from collections.abc import Callable
from typing import IO, Any

from .kernel import originals
from .kernel.channel import Channels
from .offload import OffloadPool, shared
from .turns import Turn, in_turn

BUFFER_SIZE = 128 * 1024
"""Bytes a hop to the pool moves, unless told otherwise: 8 KB gave 37 MB/s, 32 KB 186, 128 KB 776, 512 KB 844."""

MOST_TO_PIPE = originals.select_module.PIPE_BUF
"""So many bytes a pipe takes without blocking once it can be written at all."""


LAYER = dict.fromkeys(map(ord, "bt"))
"""Characters of a mode that tell which layers there are, not how the file itself is opened."""


READING = ("read", "readline", "read1", "readinto", "readinto1", "readlines", "peek")
WRITING = ("write", "writelines")
EITHER = ("flush", "seek", "tell", "truncate", "detach")


@in_turn("read", "readall", "readinto", "readline", "readlines", *WRITING, "seek", "tell", "truncate")
class OffloadedFile(io.FileIO):
    """The file itself. Where data come and go at others' pace (pipe, terminal, socket), it parks until it is ready."""

    def __init__(self, turn: Turn, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        kind = os.fstat(self.fileno()).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or self.isatty():
            turn.channels = Channels(self.fileno())
        turn.borrowed = not closefd
        self.turn = turn

    def read(self, size: int | None = -1, /) -> Any:
        if self.turn.channels is not None and self.readable() and size != 0:
            if size is None or size < 0:
                return self.read_to_end()
            self.turn.wait_until(originals.select_module.POLLIN)
        return self.turn.finish(super().read, size)

    def readall(self) -> Any:
        return self.read()

    def read_to_end(self) -> Any:
        chunks = []
        while chunk := self.read(BUFFER_SIZE):
            chunks.append(chunk)
        return b"".join(chunks) if chunks else chunk

    def readinto(self, buffer: Any, /) -> Any:
        """Read into memory of the caller, by way of our own: who is interrupted by force may have freed his."""
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise TypeError(f"readinto() needs memory that can be written, not {type(buffer).__name__}")
        data = self.read(len(view))
        if not data:
            return data if data is None else 0
        view[: len(data)] = data
        return len(data)

    def write(self, data: Any, /) -> Any:
        """Write, and return how much; from a copy, unless the data cannot change, for the same reason."""
        kept = data if type(data) is bytes else bytes(memoryview(data))
        if self.turn.channels is not None and self.writable():
            self.turn.wait_until(originals.select_module.POLLOUT)
            kept = kept[:MOST_TO_PIPE]
        return self.turn.finish(super().write, kept)

    def seek(self, position: int, whence: int = os.SEEK_SET, /) -> int:
        if whence in (os.SEEK_SET, os.SEEK_CUR):  # takes 0.3 µs and asks no disk: a hop would be 200 times that
            return super().seek(position, whence)
        return self.turn.finish(super().seek, position, whence)  # type: ignore[no-any-return]

    def truncate(self, size: int | None = None, /) -> int:
        return self.turn.finish(super().truncate, size)  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            if self.turn.channels is not None:
                self.turn.channels.close()
            self.turn.finish(super().close)


@in_turn(*READING, *EITHER)
class BufferedReader(io.BufferedReader):
    """Source: ``io.BufferedReader``."""

    turn: Turn


@in_turn(*WRITING, *EITHER)
class BufferedWriter(io.BufferedWriter):
    """Source: ``io.BufferedWriter``."""

    turn: Turn


@in_turn(*READING, *WRITING, *EITHER)
class BufferedRandom(io.BufferedRandom):
    """Source: ``io.BufferedRandom``."""

    turn: Turn


@in_turn("read", "readline", "readlines", "reconfigure", *WRITING, *EITHER)
class TextFile(io.TextIOWrapper):
    """Source: ``io.TextIOWrapper``; besides, ``tell`` works within a loop. It reads its buffer's size at a time."""

    turn: Turn

    def __next__(self) -> str:  # type: ignore[override]
        """Return the next line; the compiled one changes the state for ``tell`` where it has no turn any more."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line


def check_mode(mode: str, buffering: int, text_options: tuple[str | None, ...]) -> None:
    """Raises: TypeError, ValueError for what ``open`` does not take either."""
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


def layered(
    raw: OffloadedFile, mode: str, buffering: int, encoding: str | None, errors: str | None, newline: str | None
) -> Any:
    """Return what a user of this mode gets: the file itself, a buffer over it, or text over that."""
    if buffering == 0:
        return raw
    size = buffering if buffering > 1 else BUFFER_SIZE
    try:
        buffered = (BufferedRandom if "+" in mode else BufferedReader if "r" in mode else BufferedWriter)(raw, size)
        buffered.turn = raw.turn
        if "b" in mode:
            return buffered
        by_line = buffering == 1 or (buffering < 0 and raw.isatty())
        text = TextFile(buffered, encoding, errors, newline, by_line)
        text.turn = raw.turn
        text.mode = mode  # type: ignore[misc]
        text._CHUNK_SIZE = size  # type: ignore[attr-defined]
        return text
    except BaseException:
        raw.close()
        raise


class Opening:
    """An ``open`` on its way through a pool: if its caller is gone when it is done, the file is closed again."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.file: Any = None
        self.abandoned = False

    def open(self) -> Any:
        self.file = self.make()
        if self.abandoned:
            self.file.close()
        return self.file

    def abandon(self) -> None:
        self.abandoned = True
        if self.file is not None:
            self.file.close()


def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    pool: OffloadPool | None = None,
) -> IO[Any]:
    """Open a file that does not block the dhagas beside its user. Source: ``open``.

    Parks: what must go to the operating system (``offload``, through ``pool``); what the buffer serves costs no hop: of
    a million lines one takes 0.47 µs, with ``open`` 0.07, a write 0.5 and 0.12 (CPU, benchmarks/offload.py).
    An operation under way is finished before the next one starts, and a cancel that strikes meanwhile is raised by the
    next one; the wait for a pipe, a terminal or a socket is cancelled at once. In a plain thread it is as ``open``.
    """
    check_mode(mode, buffering, (encoding, errors, newline))
    if pool is not None and not isinstance(pool, OffloadPool):
        raise TypeError(f"pool must be an OffloadPool, not {pool!r}")
    turn = Turn(pool or shared)
    if "b" not in mode:
        encoding = io.text_encoding(encoding)
    opening = Opening(
        lambda: layered(
            OffloadedFile(turn, file, mode.translate(LAYER), closefd, opener),
            mode,
            buffering,
            encoding,
            errors,
            newline,
        )
    )
    try:
        return turn.pool.offload(opening.open)
    except BaseException:
        opening.abandon()
        raise
