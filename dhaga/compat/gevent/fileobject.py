"""``gevent.fileobject``: files whose operations park, run in OS threads, or block."""

from __future__ import annotations

import os
from typing import Any

from ... import io as ours
from ..._iowait.offloaded_file import open as open_offloaded
from ..._kernel import outside

__all__ = ["FileObject", "FileObjectBlock", "FileObjectPosix", "FileObjectThread"]


def arguments_of(
    fobj: Any, mode: Any, bufsize: Any, close: bool | None, options: dict[str, Any]
) -> tuple[Any, str, dict[str, Any], Any]:
    """Return fd or path, mode and options for a call of ``open``, and ``fobj`` if it is a file (else None).

    The fd of a given file is duplicated. The given file is then closed, unless ``close`` is False.
    """
    buffering = options.pop("buffering", None)
    closefd = options.pop("closefd", None)
    if buffering is not None and bufsize is not None:
        raise TypeError("bufsize and buffering mean the same: pass only one of them")
    options["buffering"] = -1 if (found := bufsize if buffering is None else buffering) is None else found
    closes = closefd if close is None else close
    given = fobj if hasattr(fobj, "fileno") else None
    if mode is None:
        mode = getattr(given, "mode", "r")
        mode = mode if isinstance(mode, str) else "rb"
    mode = checked_mode(mode, options)
    if given is not None:
        if hasattr(fobj, "flush"):
            fobj.flush()
        # The fd is duplicated, because the given file closes its own fd.
        fd = os.dup(fobj.fileno())
        if closes is not False and hasattr(fobj, "close"):
            fobj.close()
        return fd, mode, options, given
    if closes is not None and isinstance(fobj, int):
        options["closefd"] = closes
    return fobj, mode, options, None


def checked_mode(mode: Any, options: dict[str, Any]) -> Any:
    """Return the mode without Python 2's ``U``. Raises: TypeError, ValueError for arguments that ``open`` refuses."""
    if not isinstance(mode, str):
        raise TypeError(f"invalid mode: {mode!r}")
    if not isinstance(options["buffering"], int):
        raise TypeError(f"invalid buffering: {options['buffering']!r}")
    for name in ("encoding", "errors"):
        if not isinstance(options.get(name), str | None):
            raise TypeError(f"invalid {name}: {options[name]!r}")
    letters = set(mode)
    if letters - set("axrwb+tU") or len(letters) < len(mode):
        raise ValueError(f"invalid mode: {mode!r}")
    if "U" in letters:
        if letters & set("xwa+"):
            raise ValueError("mode U cannot be combined with 'x', 'w', 'a', or '+'")
        mode = "r" + mode.replace("U", "").replace("r", "")
    if {"t", "b"} <= letters:
        raise ValueError("can't have text and binary mode at once")
    if (ways := len(set(mode) & set("xrwa"))) != 1:
        raise ValueError(
            "can't have read/write/append mode at once" if ways else "must have exactly one of read/write/append mode"
        )
    for name in ("encoding", "errors", "newline") if "b" in letters else ():
        if options.get(name) is not None:
            raise ValueError(f"binary mode doesn't take {'a' if name == 'newline' else 'an'} {name} argument")
    return mode


def raw_of(file: Any) -> Any:
    """Return the unbuffered layer of a file."""
    return getattr(getattr(file, "buffer", file), "raw", file)


def named(file: Any, given: Any) -> Any:
    """Give a new file the name of the original, if there is an original, and return the new file."""
    if given is not None:
        raw = raw_of(file)
        if hasattr(given, "name"):
            raw.name = given.name
        else:
            del raw.name
    return file


def FileObjectPosix(
    fobj: Any, mode: str | None = None, bufsize: int | None = None, close: bool | None = None, **options: Any
) -> Any:
    """Return a file over a path, an fd or a file. Reads and writes of a pipe, a socket or a terminal park.

    The new file replaces a given file: the given file is closed, unless ``close`` is False.
    """
    file, mode, options, given = arguments_of(fobj, mode, bufsize, close, options)
    opened = named(ours.open(file, mode, **options), given)
    if hasattr(opened, "__dict__"):
        opened.fileio = raw_of(opened)
    return opened


def FileObjectThread(
    fobj: Any,
    mode: str | None = None,
    bufsize: int | None = None,
    close: bool | None = None,
    threadpool: Any = None,
    lock: bool = True,
    **options: Any,
) -> Any:
    """Return a file over a path, an fd or a file. Its blocking operations run in OS threads while the caller parks."""
    file, mode, options, given = arguments_of(fobj, mode, bufsize, close, options)
    return named(open_offloaded(file, mode, **options), given)


def FileObjectBlock(
    fobj: Any, mode: str | None = None, bufsize: int | None = None, close: bool | None = None, **options: Any
) -> Any:
    """Return a file over a path, an fd or a file. Its operations block the OS thread."""
    file, mode, options, given = arguments_of(fobj, mode, bufsize, close, options)
    return named(outside.open_file(file, mode, **options), given)


FileObject = FileObjectPosix
