"""The real calls of the operating system, which no patch replaces, for the directories of disks and for other files."""

from __future__ import annotations

import posix
from collections.abc import Iterator
from typing import Any

from ..._kernel.context_manager import contextmanager

real: Any = posix
"""The C module from which ``os`` takes its functions."""

depth = 0
"""The number of ``own_calls()`` blocks that are being executed."""


@contextmanager
def own_calls() -> Iterator[None]:
    """Mark the calls in the block as calls of the simulation itself. The audit hook accepts them."""
    global depth
    depth += 1
    try:
        yield
    finally:
        depth -= 1


def read_all(path: str) -> bytes:
    fd = real.open(path, real.O_RDONLY | real.O_CLOEXEC)
    try:
        parts = []
        while part := real.read(fd, 1 << 20):
            parts.append(part)
    finally:
        real.close(fd)
    return b"".join(parts)


def write_all(fd: int, data: Any) -> None:
    left = memoryview(data)
    while left:
        left = left[real.write(fd, left) :]


def remove_below(path: str) -> None:
    """Remove everything in a directory, without the directory itself."""
    for name in real.listdir(path):
        below = f"{path}/{name}"
        if real.lstat(below).st_mode & 0o170000 == 0o040000:
            remove_below(below)
            real.rmdir(below)
        else:
            real.unlink(below)
