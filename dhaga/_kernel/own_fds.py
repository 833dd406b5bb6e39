"""The file descriptors that Dhaga adds to a process. A program that closes fds by number must not close Dhaga's fds.

Daemons and supervised programs close all fds that they have not opened. Dhaga's ``os.closerange`` and ``os.close`` do
not close the fds listed here, because a scheduler whose epoll is closed cannot run anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from . import originals
from .context_manager import contextmanager

# The standard library's functions, before any patch replaces them.
fstat, open_fd = os.fstat, os.open

own_fds: set[int] = set()
"""The fds of the open schedulers: epolls of loops and pollers, self-pipes of loops, and pipes for signals."""


def ranges_without_own(low: int, high: int) -> list[tuple[int, int]]:
    """Return the fds from ``low`` to below ``high``, without Dhaga's own, as a list of ranges."""
    ends = [fd for fd in sorted(own_fds) if low <= fd < high]
    return list(zip([low, *(fd + 1 for fd in ends)], [*ends, high], strict=True))


@contextmanager
def above_standard_fds() -> Iterator[None]:
    """Reserve the numbers 0 to 2 during the block, so that fds opened in the block get higher numbers.

    A daemon that was started with closed standard streams may later put ``/dev/null`` in their place (``os.dup2``). If
    an fd of Dhaga had such a number, ``os.dup2`` would close the fd.
    """
    placeholders: list[int] = []
    for fd in range(3):
        try:
            fstat(fd)
        except OSError:
            with suppress(OSError):  # there is no /dev/null, for example in a chroot
                placeholders.append(open_fd(os.devnull, os.O_RDWR))
    try:
        yield
    finally:
        for fd in placeholders:
            originals.close(fd)
