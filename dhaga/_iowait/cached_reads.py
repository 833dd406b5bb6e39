"""Reads from the page cache: data that is in memory needs no OS thread.

With RWF_NOWAIT, Linux reads it at once, and reports EAGAIN where it would have to wait for the disk. 4 KB take 2 µs;
the way to a thread and back takes 60 µs, or 460 µs beside three busy dhagas. A file system may refuse the flag, as
tmpfs does: every read of that file is then offloaded.

Rejected: writes with the flag, which ext4 and tmpfs refuse. ``POSIX_FADV_SEQUENTIAL`` for files that are read through:
128 MB from the disk took 7 hops to a thread instead of 11, and as long (Linux reads 8 MB ahead by itself there).
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
"""Bytes of one such read at most: they are copied in about 0.1 ms, in which no other dhaga runs."""


class Refused(Exception):
    """The file system does not take RWF_NOWAIT."""


def read_cached(fd: int, buffer: Any) -> int | None:
    """Read at the file's position into a buffer. Parks: never.

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
