"""The file descriptors that Dhaga adds to a process. A program that closes fds by number must not close these.

Daemons and supervised programs close all fds that they have not opened: ``os.closerange`` and ``os.close`` ask here.
Without its epoll a scheduler could run nothing any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from . import originals
from .context_manager import contextmanager

# The standard library's own.
fstat, open_fd = os.fstat, os.open

own_fds: set[int] = set()
"""The fds of the living schedulers: their loops' epolls and self-pipes, and the pipe for signals."""


def ranges_without_own(low: int, high: int) -> list[tuple[int, int]]:
    """Return a range of fds, its end excluded, in parts without those of Dhaga's."""
    ends = [fd for fd in sorted(own_fds) if low <= fd < high]
    return list(zip([low, *(fd + 1 for fd in ends)], [*ends, high], strict=True))


@contextmanager
def above_standard_fds() -> Iterator[None]:
    """Make the fds that are opened in the block get numbers above 2.

    A daemon may be started with closed standard streams, and open ``/dev/null`` in their place later (``os.dup2``).
    """
    placeholders: list[int] = []
    for fd in range(3):
        try:
            fstat(fd)
        except OSError:
            with suppress(OSError):  # no /dev/null, as in a chroot
                placeholders.append(open_fd(os.devnull, os.O_RDWR))
    try:
        yield
    finally:
        for fd in placeholders:
            originals.close(fd)
