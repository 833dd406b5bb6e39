"""``eventfd_read``, ``eventfd_write`` and ``splice`` of ``os``, which park where they would block."""

from __future__ import annotations

import os
from typing import Any

from .._kernel.backoff import backoff
from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.run.scheduler import sleep
from .._kernel.wait.current import parking_waiter
from .fd_ops import POLLIN, POLLOUT, wait_until

__all__ = ["eventfd_read", "eventfd_write", "splice"]

# The standard library's functions, taken before a patch can replace them; None if the platform lacks them.
standard_eventfd_read: Any = getattr(os, "eventfd_read", None)
standard_eventfd_write: Any = getattr(os, "eventfd_write", None)
standard_splice: Any = getattr(os, "splice", None)

SPLICE_F_NONBLOCK = 2
LARGEST_COUNT = 2**64 - 2
PAUSES = 0.001, 0.02
"""First and longest pause, in seconds, between two checks of a counter, because no event reports its value."""


@builtin_function
def eventfd_read(fd: int) -> int:
    """Read the counter of an eventfd. Parks: ``read fd N``, while the counter is 0. Source: ``os.eventfd_read``."""
    wait_until(fd, POLLIN)
    return standard_eventfd_read(fd)  # type: ignore[no-any-return]


@builtin_function
def eventfd_write(fd: int, value: int) -> None:
    """Add to an eventfd's counter. Parks: ``write fd N``, while the counter is full. Source: ``os.eventfd_write``."""
    wait_until(fd, POLLOUT)
    if value != 1 and parking_waiter() is not None:
        for pause in backoff(*PAUSES):
            if has_room(fd, value):
                break
            sleep(pause)
    standard_eventfd_write(fd, value)


def has_room(fd: int, value: int) -> bool:
    """Return whether a write of ``value`` need not wait. poll(2) reports only whether a write of 1 need not wait.

    The answer is also true for invalid arguments, and where /proc does not show the counter.
    """
    try:
        if not 0 < value <= LARGEST_COUNT or not os.get_blocking(fd):
            return True
        with open(f"/proc/self/fdinfo/{fd}", "rb", buffering=0) as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines())
        return int(fields[b"eventfd-count"], 16) + value <= LARGEST_COUNT
    except (OSError, TypeError, ValueError, KeyError):
        return True


@builtin_function
def splice(
    src: int, dst: int, count: int, offset_src: int | None = None, offset_dst: int | None = None, flags: int = 0
) -> int:
    """Move data between a pipe and another file. Source: ``os.splice``.

    Parks: until some bytes can be moved (``read fd N``, ``write fd N``).
    """
    # The standard call never waits if one of the files is in non-blocking mode, or if ``count`` is 0.
    never_waits = flags & SPLICE_F_NONBLOCK or not count or not (os.get_blocking(src) and os.get_blocking(dst))
    if parking_waiter() is None or never_waits:
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
