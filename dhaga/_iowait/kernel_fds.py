"""Calls of ``os`` that wait in the kernel without reading or writing a buffer: event counters and ``splice``."""

from __future__ import annotations

import os
from typing import Any

from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.wait.current import parking_waiter
from .fd_ops import POLLIN, POLLOUT, wait_until

__all__ = ["eventfd_read", "eventfd_write", "splice"]

# The standard library's functions, taken before a patch can replace them; None where the platform lacks them.
standard_eventfd_read: Any = getattr(os, "eventfd_read", None)
standard_eventfd_write: Any = getattr(os, "eventfd_write", None)
standard_splice: Any = getattr(os, "splice", None)

SPLICE_F_NONBLOCK = 2


@builtin_function
def eventfd_read(fd: int) -> int:
    """Read the counter of an eventfd. Parks: ``read fd N``, while it is 0. Source: ``os.eventfd_read``."""
    wait_until(fd, POLLIN)
    return standard_eventfd_read(fd)  # type: ignore[no-any-return]


@builtin_function
def eventfd_write(fd: int, value: int) -> None:
    """Add to the counter of an eventfd. Parks: ``write fd N``, while it is full. Source: ``os.eventfd_write``."""
    wait_until(fd, POLLOUT)
    standard_eventfd_write(fd, value)


@builtin_function
def splice(
    src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None, flags: int = 0
) -> int:
    """Move data between a pipe and another file. Source: ``os.splice``.

    Parks: ``read fd N``, ``write fd N``, until some bytes could be moved.
    """
    # If one of the files is not in blocking mode, the call does not wait.
    if parking_waiter() is None or flags & SPLICE_F_NONBLOCK or not (os.get_blocking(src) and os.get_blocking(dst)):
        return standard_splice(src, dst, count, offset_src, offset_dst, flags)  # type: ignore[no-any-return]
    while True:
        wait_until(src, POLLIN)
        wait_until(dst, POLLOUT)
        try:
            # Another reader may have taken the data between the poll and this call.
            return standard_splice(  # type: ignore[no-any-return]
                src, dst, count, offset_src, offset_dst, flags | SPLICE_F_NONBLOCK
            )
        except BlockingIOError:
            pass
