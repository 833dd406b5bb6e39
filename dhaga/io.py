"""The standard ``io`` with files over pipes, sockets and terminals that park: where data come at others' pace.

Whatever else is opened, or asked for, is the standard module's own; for a disk that takes its time see ``dhaga.open``.
The patch leaves ``open`` alone, and takes ``os.fdopen`` and the pipes of ``subprocess``: a function that is written in
Python would be bound to whoever has it as a class attribute, and each opening of a path would have its cost.
"""

from __future__ import annotations

import builtins
import io as standard
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Any

from .files import LAYER, OffloadedFile, TextFile, check_mode, layered
from .kernel import originals
from .offload import shared
from .turns import Turn

__all__ = ["TextIOWrapper", "open"]

standard_open = builtins.open


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


class InlineTurn(Turn):
    """A turn at a file whose operations are made at once: they come when it is ready."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(shared)

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Make an operation."""
        return operation(*args)


class TextIOWrapper(TextFile):
    """Text over a buffer, one operation at a time. Source: ``io.TextIOWrapper``."""

    def __init__(self, buffer: Any, *args: Any, **options: Any) -> None:
        super().__init__(buffer, *args, **options)
        self.turn = getattr(buffer, "turn", None) or InlineTurn()


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

    Parks: never; the operations of a file over the fd of a pipe, a socket or a terminal park until that is ready.
    """
    if not isinstance(file, int) or not is_stream(file):
        return standard_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    check_mode(mode, buffering, (encoding, errors, newline))
    if "b" not in mode:
        encoding = standard.text_encoding(encoding)
    raw = OffloadedFile(InlineTurn(), file, mode.translate(LAYER), closefd, opener)
    return layered(  # type: ignore[no-any-return]
        raw,
        mode,
        standard.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) and "b" in mode else buffering,
        encoding,
        errors,
        newline,
    )


def is_stream(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError):  # the standard complains
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))


# ---- the standard input

left_in_parent: list[Any] = []
"""Standard inputs that somebody may be reading in the parent process, for good."""


def patient_stdin() -> Any:
    """Return what is to be ``sys.stdin``, so that who reads it parks: the same, unless it is a pipe or a terminal.

    Source: ``sys.stdin``; ``input()`` at a terminal is the system's own, with its editing of lines, and blocks.
    """
    stdin: Any = sys.stdin
    if type(stdin) is not standard.TextIOWrapper or stdin.closed or not is_stream(stdin.fileno()):
        return stdin
    return over(stdin)


def over(stdin: Any) -> Any:
    """Return a parking file over the fd of another, which stays open."""
    file: Any = open(stdin.fileno(), encoding=stdin.encoding, errors=stdin.errors, closefd=False)
    file.buffer.raw.name = stdin.name
    return file


def after_fork_in_child() -> None:
    """Leave to the parent what a dhaga of its may have been reading, and begin anew."""
    stdin: Any = sys.stdin
    if isinstance(stdin, TextFile) and stdin.turn.borrowed and not stdin.closed:
        left_in_parent.append(stdin)
        sys.stdin = over(stdin)


originals.after_fork_in_child(after_fork_in_child)
