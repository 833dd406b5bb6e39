"""The standard ``io`` with files over pipes, sockets and terminals that park.

Files on disk, and all other names, are the standard module's own; for a slow disk see ``dhaga.open``.

Operations run in the calling thread once the fd is ready: ``InlineFileLock`` is a ``FileLock`` without a pool. The
patch replaces ``os.fdopen`` and the pipes of ``subprocess``, but not the built-in ``open``: as a class attribute a
Python function would become a method, and opening a path would cost more.
"""

from __future__ import annotations

import builtins
import io as standard
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Any

from ._iowait.file_lock import FileLock
from ._iowait.offloaded_file import LAYER_FLAGS, OffloadedFile, TextFile, check_mode, stack_layers
from ._kernel import originals
from ._kernel.stdlib_face import fall_back_to
from ._workers.thread_pool import shared

__all__ = ["TextIOWrapper", "open"]

standard_open: Callable[..., IO[Any]] = builtins.open

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class InlineFileLock(FileLock):
    """File lock whose operations run in the calling thread, once the fd is ready."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(shared)

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Run an operation."""
        return operation(*args)


class TextIOWrapper(TextFile):
    """Text over a buffer, one operation at a time. Source: ``io.TextIOWrapper``."""

    def __init__(self, buffer: Any, *args: Any, **options: Any) -> None:
        super().__init__(buffer, *args, **options)
        self.file_lock: FileLock = getattr(buffer, "file_lock", None) or InlineFileLock()


def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
) -> IO[Any]:
    """Open a file. Source: ``io.open``.

    Parks: never; the operations of a file over the fd of a pipe, socket or terminal park until that is ready.
    """
    if not isinstance(file, int) or not is_stream(file):
        return standard_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    check_mode(mode, buffering, (encoding, errors, newline))
    if "b" not in mode:
        encoding = standard.text_encoding(encoding)
    raw = OffloadedFile(InlineFileLock(), file, mode.translate(LAYER_FLAGS), closefd, opener)
    return stack_layers(  # type: ignore[no-any-return]
        raw,
        mode,
        standard.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) and "b" in mode else buffering,
        encoding,
        errors,
        newline,
    )


def is_stream(fd: int) -> bool:
    """Return whether an fd is a pipe, a socket or a terminal."""
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError):  # the standard open() raises the error
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))


# ---- the standard input

left_in_parent: list[Any] = []
"""Standard inputs that a dhaga of the parent process may be reading; kept for ever, so that none is closed here.
"""


def parking_stdin() -> Any:
    """Return the file to use as ``sys.stdin``: one that parks over a pipe or terminal, otherwise the same.

    Source: ``sys.stdin``. ``input()`` at a terminal is the interpreter's own, with line editing, and blocks.
    """
    stdin: Any = sys.stdin
    if type(stdin) is not standard.TextIOWrapper or stdin.closed or not is_stream(stdin.fileno()):
        return stdin
    return parking_file_over(stdin)


def parking_file_over(stdin: Any) -> Any:
    """Return a parking file over the fd of another, which stays open."""
    file: Any = open(stdin.fileno(), encoding=stdin.encoding, errors=stdin.errors, closefd=False)
    file.buffer.raw.name = stdin.name
    return file


def after_fork_in_child() -> None:
    """Replace a standard input that a dhaga of the parent may have been reading."""
    stdin: Any = sys.stdin
    if isinstance(stdin, TextFile) and stdin.file_lock.leaves_fd_open and not stdin.closed:
        left_in_parent.append(stdin)
        sys.stdin = parking_file_over(stdin)


originals.after_fork_in_child(after_fork_in_child)
