"""The standard ``io``, but ``open`` returns files that park if they are pipes, sockets or terminals.

Whether a file parks depends only on its kind, and not on how it was opened (by path, by fd, by an ``opener``). Files on
disk, and all names except ``open`` and ``TextIOWrapper``, are the standard module's own; for a slow disk see
``dhaga.open``.

Operations run in the calling thread when the fd is ready: ``InlineFileState`` is a ``FileState`` that does not use the
pool of OS threads. The patch replaces the built-in ``open`` and ``os.fdopen``. It does not replace ``io.FileIO``, a
class that C code uses.
"""

from __future__ import annotations

import getpass
import io as standard
import os
import stat
import sys
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from ._iowait import offloaded_file
from ._iowait.file_state import FileState
from ._iowait.offloaded_file import TextFile, check_mode, new_raw_file, stack_layers
from ._iowait.open_fd import kind_of
from ._iowait.open_fd import open as open_fd
from ._kernel import originals, outside
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to
from ._kernel.platform.system import system
from ._workers.offload import shared

__all__ = ["TextIOWrapper", "open"]

standard_text = standard.TextIOWrapper
_standard_raw_input: Any = vars(getpass)["_raw_input"]

Opener: TypeAlias = Callable[[str, int], int]

TextOptions: TypeAlias = tuple[str | None, str | None, str | None]

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


class InlineFileState(FileState):
    """The state of a file whose operations run in the calling thread when the fd is ready."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(shared)

    def finish(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Run an operation in the calling thread."""
        return operation(*args)


if not system.WAITS_FOR_FILES:  # no event reports that an fd is ready, so an OS thread makes the call
    del InlineFileState.finish


class TextIOWrapper(TextFile):
    """A text layer over a buffer. The layer allows one operation at a time. Source: ``io.TextIOWrapper``."""

    def __init__(self, buffer: Any, *args: Any, **options: Any) -> None:
        super().__init__(buffer, *args, **options)
        state: FileState | None = getattr(buffer, "file_state", None)
        if state is None:
            state = InlineFileState()
            state.leaves_fd_open = True  # the buffer warns if it is dropped without close()
        state.set_top(self)


@builtin_function
def open(
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Opener | None = None,
) -> IO[Any]:
    """Open a file. Source: ``io.open``.

    Parks: while the other end of a FIFO is closed (``offload os.open``). The operations of a file over a pipe, socket
    or terminal park until the fd is ready.
    """
    if WARNS_OF_ENCODING and "b" not in mode:
        encoding = standard.text_encoding(encoding)
    options = (encoding, errors, newline)
    if isinstance(file, int):
        if is_stream(file):
            return parking_file(file, mode, buffering, options, closefd, opener)
    elif opener is None and stat.S_ISFIFO(kind := kind_of(file)):
        return parking_file(file, mode, buffering, options, closefd, open_fd)
    elif opener is not None or stat.S_ISCHR(kind):
        # Whether a file is a terminal is known only after it has been opened.
        try:
            return outside.open_file(file, mode, buffering, *options, closefd, unless_stream(opener or open_fd))
        except StreamOpened as stream:
            fd = stream.fd
        return parking_file(file, mode, buffering, options, closefd, lambda *_: fd)
    return outside.open_file(file, mode, buffering, *options, closefd, opener)


WARNS_OF_ENCODING = bool(sys.flags.warn_default_encoding)


def parking_file(
    file: Any,
    mode: str,
    buffering: int,
    options: TextOptions,
    closefd: bool,
    opener: Opener | None,
) -> IO[Any]:
    """Return a file whose operations park until its pipe, socket or terminal is ready."""
    check_mode(mode, buffering, options)
    encoding, errors, newline = options
    if "b" not in mode:
        encoding = standard.text_encoding(encoding)
    raw = new_raw_file(InlineFileState(), file, mode, closefd, opener)
    by_size = standard.DEFAULT_BUFFER_SIZE if buffering in (-1, 1) and "b" in mode else buffering
    return stack_layers(raw, mode, by_size, encoding, errors, newline)  # type: ignore[no-any-return]


class StreamOpened(BaseException):
    """The exception with which an opener passes the fd of a pipe, socket or terminal to ``open``."""

    def __init__(self, fd: int) -> None:
        self.fd = fd


def unless_stream(opener: Opener) -> Opener:
    """Return an opener that raises StreamOpened for the fd of a pipe, socket or terminal."""

    def open_unless_stream(path: str, flags: int) -> int:
        fd = opener(path, flags)
        if isinstance(fd, int) and is_stream(fd):
            raise StreamOpened(fd)
        return fd

    return open_unless_stream


def is_stream(fd: int) -> bool:
    """Return whether an fd is a pipe, a socket, a terminal, or an eventfd or similar object."""
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError):  # the standard open() raises the error
        return False
    return offloaded_file.is_stream(mode) or (stat.S_ISCHR(mode) and os.isatty(fd))


# ---- the standard input

left_in_parent: list[Any] = []
"""Standard inputs that dhagas of the parent process may read. They are kept, because a freed file closes its fd."""


def parking_stdin() -> Any:
    """Return the new ``sys.stdin``. For a pipe, socket or terminal, it is a file that parks; else the current file.

    Source: ``sys.stdin``. ``input()`` at a terminal is in ``_iowait/terminal.py``.
    """
    stdin: Any = sys.stdin
    if type(stdin) is not standard_text or stdin.closed or not is_stream(stdin.fileno()):
        return stdin
    return parking_file_over(stdin)


def parking_file_over(stdin: Any) -> Any:
    """Return a file that parks, over the fd of ``stdin``. Closing the new file leaves the fd open."""
    file: Any = open(stdin.fileno(), encoding=stdin.encoding, errors=stdin.errors, closefd=False)
    file.buffer.raw.name = stdin.name
    return file


def _raw_input(prompt: str = "", stream: Any = None, input: Any = None, *args: Any, **options: Any) -> str:
    """Read a line for ``getpass``. Parks: ``read fd N``. Source: ``getpass._raw_input``."""
    if type(input) is standard_text:
        input = open(input.fileno(), encoding=input.encoding, errors=input.errors, closefd=False)
    return _standard_raw_input(prompt, stream, input, *args, **options)  # type: ignore[no-any-return]


def after_fork_in_child() -> None:
    """Replace a standard input that a dhaga of the parent may have been reading."""
    stdin: Any = sys.stdin
    if isinstance(stdin, TextFile) and stdin.file_state.leaves_fd_open and not stdin.closed:
        left_in_parent.append(stdin)
        sys.stdin = parking_file_over(stdin)


originals.after_fork_in_child(after_fork_in_child)
