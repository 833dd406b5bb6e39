"""Calls that reach a file of a disk without the simulation's functions: they raise NotSimulated.

An audit hook finds these calls. It sees each use of the audited functions of Python, from Python code or from C code.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _real
from ._active import disks_of_caller, refused

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
READ_ONLY_MAP, COPIED_MAP = 1, 3

PATHS = {
    "open": 0,
    "os.link": 1,
    "os.mkdir": 0,
    "os.remove": 0,
    "os.rename": 1,
    "os.rmdir": 0,
    "os.symlink": 1,
    "os.truncate": 0,
    "sqlite3.connect": 0,
}
"""The audit events with a path, each with the index of the path among its arguments."""

hooked = False


def watch() -> None:
    """Install the audit hook. It stays until the process ends, and does nothing outside a simulation."""
    global hooked
    if not hooked:
        hooked = True
        sys.addaudithook(on_audit)


def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event in PATHS or event == "mmap.__new__":
        disks = disks_of_caller()
        if disks is not None and not _real.depth:
            check(disks, event, arguments)


def check(disks: Any, event: str, arguments: tuple[Any, ...]) -> None:
    if event == "mmap.__new__":
        fd, _, access = arguments[:3]
        file = disks.file_behind(fd) if fd >= 0 and access not in (READ_ONLY_MAP, COPIED_MAP) else None
        if file is not None:
            raise refused("mmap.mmap()", f"{file.disk.host}:{file.name}", "writes to memory are no calls")
        return
    path = arguments[PATHS[event]]
    if isinstance(path, int) or (event == "open" and not is_for_writing(arguments)):
        return
    place = disks.place_of(path)
    if place is None and event == "sqlite3.connect" and str(path).startswith("file:"):
        place = disks.place_of(str(path).removeprefix("file:").partition("?")[0])
    if place is not None:
        call = "open() in C" if event == "open" else f"{event}()"
        raise refused(call, f"{place.disk.host}:{place.shown}", "its writes do not pass through the simulation")


def is_for_writing(arguments: tuple[Any, ...]) -> bool:
    return len(arguments) < 3 or arguments[2] is None or bool(arguments[2] & WRITING)
