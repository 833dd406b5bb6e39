"""``gevent.fileobject``: files over fds that park, and files whose operations run in OS threads."""

from __future__ import annotations

import os
from typing import Any

from ... import io as ours
from ..._iowait.offloaded_file import open as open_offloaded

__all__ = ["FileObject", "FileObjectBlock", "FileObjectPosix", "FileObjectThread"]


def arguments_of(
    fobj: Any, mode: str | None, bufsize: int | None, close: bool | None, options: dict[str, Any]
) -> tuple[Any, str, dict[str, Any]]:
    """Return file, mode and options for an ``open``. An open file gives its fd; both are closed together."""
    buffering = options.pop("buffering", None)
    closefd = options.pop("closefd", None)
    if buffering is not None and bufsize is not None:
        raise TypeError("bufsize and buffering are one: give one of them")
    options["buffering"] = -1 if (found := bufsize if buffering is None else buffering) is None else found
    closes = closefd if close is None else close
    if hasattr(fobj, "fileno"):
        if mode is None:
            mode = getattr(fobj, "mode", "rb")
            mode = mode if isinstance(mode, str) else "rb"
        if hasattr(fobj, "flush"):
            fobj.flush()
        # A descriptor of its own: the file that was given closes the one that it has.
        fd = os.dup(fobj.fileno())
        if closes is not False and hasattr(fobj, "close"):
            fobj.close()
        return fd, mode, options
    if closes is not None:
        options["closefd"] = closes
    return fobj, (mode or "r").replace("U", ""), options


def FileObjectPosix(
    fobj: Any, mode: str | None = None, bufsize: int | None = None, close: bool | None = None, **options: Any
) -> Any:
    """Return a file over a path, an fd or a file; reads and writes of a pipe, socket or terminal park.

    A file that is given is closed, as the new one takes its place, unless ``close`` is False.
    """
    file, mode, options = arguments_of(fobj, mode, bufsize, close, options)
    return ours.open(file, mode, **options)


def FileObjectThread(
    fobj: Any,
    mode: str | None = None,
    bufsize: int | None = None,
    close: bool | None = None,
    threadpool: Any = None,
    lock: bool = True,
    **options: Any,
) -> Any:
    """Return a file over a path, an fd or a file, whose blocking operations run in OS threads: the caller parks."""
    file, mode, options = arguments_of(fobj, mode, bufsize, close, options)
    return open_offloaded(file, mode, **options)


def FileObjectBlock(
    fobj: Any, mode: str | None = None, bufsize: int | None = None, close: bool | None = None, **options: Any
) -> Any:
    """Return a file over a path, an fd or a file, whose operations block."""
    file, mode, options = arguments_of(fobj, mode, bufsize, close, options)
    return ours.standard_open(file, mode, **options)


FileObject = FileObjectPosix
