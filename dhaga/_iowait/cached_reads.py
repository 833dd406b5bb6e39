"""Reads of files from the page cache. They run in the calling OS thread, because data in memory needs no worker thread.

On Linux, a read with the flag RWF_NOWAIT never waits for the disk: it returns cached data, or fails with EAGAIN. A
cached read of 4 KB takes 2 µs. A hop to a worker thread and back takes 60 µs, or 460 µs while three other dhagas are
busy. If a file system refuses the flag (as tmpfs does), every read of its files is offloaded.

Rejected: writes with the flag, because ext4 and tmpfs refuse it. Rejected: ``POSIX_FADV_SEQUENTIAL`` for sequential
reads. With this advice, a read of 128 MB from a disk made 7 hops to a thread instead of 11, but was not faster, because
Linux already reads 8 MB ahead.
"""

from __future__ import annotations

import errno
import os
from typing import Any

NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)

preadv: Any = getattr(os, "preadv", None)

UNSUPPORTED = errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE
"""Errors with which a kernel or file system refuses RWF_NOWAIT, or a stream refuses a position."""

LARGEST = 1024 * 1024
"""Maximum number of bytes in one cached read. Copying 1 MB takes about 0.1 ms, during which no other dhaga runs."""


class Refused(Exception):
    """The error of a read on a file system that does not support RWF_NOWAIT."""


def read_cached(fd: int, buffer: Any) -> int | None:
    """Read cached data at the file's position into a buffer. Parks: never.

    Returns: the number of bytes, 0 at the end; None if the read would wait. Raises: Refused, OSError.
    """
    try:
        count: int = preadv(fd, [buffer], -1, NOWAIT)
        return count
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno in UNSUPPORTED:
            raise Refused from None
        raise
