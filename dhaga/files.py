"""Files whose blocking operations are made in an OS thread while the calling dhaga is parked: ``dhaga.open``.

The layers are the standard library's own. At the bottom stands a ``FileIO`` that offloads; the compiled buffers and the
text layer above it do not know. They would not bear a second caller in the same OS thread while the first is parked in
their middle (``RuntimeError: reentrant call``, or a torn line), so that every operation first gets its turn.

Rejected: to offload the operations of the upper layers, where each line costs a hop; to let whoever is parked change
the ``__class__`` of the file, and to need no turn as long as nobody is: 4 times as fast a line, and nobody is ever
handed the turn.
"""

from __future__ import annotations

import functools
import io
import os
import stat
import warnings
from collections.abc import Callable
from typing import IO, Any, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.channel import Channels, closed_error
from .kernel.waiting import this_waiter
from .locks import RLock
from .offload import OffloadPool, shared

C = TypeVar("C", bound=type)

BUFFER_SIZE = 128 * 1024
"""Bytes a hop to the pool moves, unless told otherwise: see benchmarks/results/offload.json."""

MOST_TO_PIPE = originals.select_module.PIPE_BUF
"""So many bytes a pipe takes without blocking once it can be written at all."""


LAYER = dict.fromkeys(map(ord, "bt"))
"""Characters of a mode that tell which layers there are, not how the file itself is opened."""


class Turn(RLock):
    """The right to operate on one file, for a dhaga or thread at a time, and the way to the pool meanwhile."""

    __slots__ = ("channels", "closing", "inline", "pool", "struck")

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__()
        self.count = 1  # for who takes it in one step
        self.pool = pool
        self.struck = False  # a cancel came too late for an operation: it is for the next one
        self.channels: Channels | None = None  # of a file where data come and go at others' pace
        self.closing = False  # somebody waits for the turn to close the file
        self.inline = False  # a finalizer closes the file: it must not park

    def __enter__(self) -> bool:
        if self.inline:  # nobody else has the file, and at interpreter exit greenlet does not say who this is
            return True
        if self.struck and not self._is_owned():
            self.strike()
        return super().__enter__()

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        if not self.inline:
            self.release()

    def insist(self) -> None:
        """Take the turn whatever cancels say, to close the file. Who waits for data with it gets an OSError."""
        if self.inline:
            return
        if self._is_owned():
            self.count += 1
            return
        self.closing = True
        if self.channels is not None and self.holder is not None:
            former, self.channels = self.channels, Channels(self.channels.fd)
            former.close()
        self._acquire_restore(1)
        self.closing = False

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Have a blocking operation made, and wait for its end whatever happens: a file is not left half way."""
        if self.inline:
            return operation(*args)
        try:
            return self.pool.finish(operation, *args)
        finally:
            self.struck = self.struck or bool(this_waiter().pending)

    def wait_until(self, event: int) -> None:
        """Wait until the file is ready, unless it is not to block; a cancel, or who closes it, may end that."""
        assert self.channels is not None
        if self.inline or not os.get_blocking(self.channels.fd):
            return
        ready = originals.poll()
        ready.register(self.channels.fd, event)
        while not ready.poll(0):
            if self.closing:
                raise closed_error()
            me = this_waiter()
            channel = self.channels.of(me)
            (channel.wait_readable if event == originals.select_module.POLLIN else channel.wait_writable)(me)

    def strike(self) -> None:
        """Raise the cancel that came too late for the caller's last operation."""
        self.struck = False
        me = this_waiter()
        if me.pending:
            raise me.pending.pop(0)


def in_turn(*names: str) -> Callable[[C], C]:
    """Have these methods of a class, and ``close``, wait for their turn."""

    def decorate(kind: C) -> C:
        for name in names:
            setattr(kind, name, waiting_its_turn(getattr(kind, name)))
        kind.close = closing_in_turn(kind.close)  # type: ignore[attr-defined]
        return kind

    return decorate


def waiting_its_turn(standard_method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(standard_method)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.turn:
            return standard_method(self, *args, **kwargs)

    return method


def closing_in_turn(standard_close: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(standard_close)
    def close(self: Any) -> None:
        turn = self.turn
        turn.insist()
        try:
            standard_close(self)
        finally:
            turn.__exit__()

    return close


def line_in_turn(standard_readline: Callable[..., Any]) -> Any:
    """Return a ``readline`` that waits for its turn, written out: most of a line's cost, 30 % less than by ``with``."""

    def readline(self: Any, size: int | None = -1, /) -> Any:
        turn, me = self.turn, getcurrent()
        if turn.holder is None and not turn.struck: turn.holder = me  # one step  # fmt: skip  # noqa: E701
        else:
            with turn:
                return standard_readline(self, size)
        try:
            return standard_readline(self, size)
        finally:
            if not turn.waiters: turn.holder = None  # one step  # fmt: skip  # noqa: E701
            else:
                turn.release()

    return readline


def refuse_pickling(file: Any, protocol: object = None) -> Any:
    """Raises: TypeError, before the standard way wraps the file in another one, which closes it."""
    raise TypeError(f"cannot pickle {type(file).__name__!r} instances")


def finalize(file: Any, standard_finalizer: Callable[[], object]) -> None:
    """Close a file that was dropped; without parking, as finalizers run anywhere."""
    turn = getattr(file, "turn", None)
    if turn is None or is_closed(file):  # None: it was never opened
        return
    warning = f"unclosed file {file!r}"
    turn.inline = True
    try:
        standard_finalizer()
    finally:
        turn.inline = False
    warnings.warn(warning, ResourceWarning, stacklevel=3, source=file)  # comes last, as it may be an error


def is_closed(file: Any) -> bool:
    """Tell whether there is nothing to close."""
    try:
        return bool(file.closed)
    except ValueError:  # it was detached from the layer below
        return True


@in_turn("read", "readall", "readinto", "write", "seek", "tell", "truncate")
class OffloadedFile(io.FileIO):
    """The file itself. Where data come and go at others' pace (pipe, terminal, socket), it parks until it is ready."""

    def __init__(self, turn: Turn, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        kind = os.fstat(self.fileno()).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind) or self.isatty():
            turn.channels = Channels(self.fileno())
        self.turn = turn

    __reduce_ex__ = refuse_pickling

    def __del__(self) -> None:
        finalize(self, super().__del__)

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


READING = ("read", "read1", "readinto", "readinto1", "readlines", "peek")
WRITING = ("write", "writelines")
EITHER = ("flush", "seek", "tell", "truncate", "detach")


@in_turn(*READING, *EITHER)
class BufferedReader(io.BufferedReader):
    """Source: ``io.BufferedReader``."""

    def __init__(self, raw: OffloadedFile, size: int) -> None:
        super().__init__(raw, size)
        self.turn = raw.turn

    __reduce_ex__ = refuse_pickling

    def __del__(self) -> None:
        finalize(self, super().__del__)

    readline = line_in_turn(io.BufferedReader.readline)


@in_turn(*WRITING, *EITHER)
class BufferedWriter(io.BufferedWriter):
    """Source: ``io.BufferedWriter``."""

    def __init__(self, raw: OffloadedFile, size: int) -> None:
        super().__init__(raw, size)
        self.turn = raw.turn

    __reduce_ex__ = refuse_pickling

    def __del__(self) -> None:
        finalize(self, super().__del__)


@in_turn(*READING, *WRITING, *EITHER)
class BufferedRandom(io.BufferedRandom):
    """Source: ``io.BufferedRandom``."""

    readline = line_in_turn(io.BufferedRandom.readline)

    def __init__(self, raw: OffloadedFile, size: int) -> None:
        super().__init__(raw, size)
        self.turn = raw.turn

    __reduce_ex__ = refuse_pickling

    def __del__(self) -> None:
        finalize(self, super().__del__)


@in_turn("read", "readlines", "reconfigure", *WRITING, *EITHER)
class TextFile(io.TextIOWrapper):
    """Source: ``io.TextIOWrapper``. It reads its buffer's size at a time, so that a hop is worth its while."""

    def __init__(
        self, buffer: Any, encoding: str | None, errors: str | None, newline: str | None, by_line: bool
    ) -> None:
        super().__init__(buffer, encoding, errors, newline, by_line)
        self.turn: Turn = buffer.turn

    __reduce_ex__ = refuse_pickling

    def __del__(self) -> None:
        finalize(self, super().__del__)

    readline = line_in_turn(io.TextIOWrapper.readline)


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
        if "b" in mode:
            return buffered
        by_line = buffering == 1 or (buffering < 0 and raw.isatty())
        text = TextFile(buffered, encoding, errors, newline, by_line)
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

    Parks: what must go to the operating system (``offload``, through ``pool``); what the buffer serves costs no hop.
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
