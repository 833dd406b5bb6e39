"""Reading and writing by bare file descriptor, as ``os`` does: who would block the OS thread parks instead.

``O_NONBLOCK`` is left as it is: it belongs to the open file, which a child or a parent may share. So an fd is asked
whether it is ready first, and given no more than it takes. What is always ready, as regular files, costs that question.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import Any

from .kernel import originals
from .kernel.channel import Channel, onlookers
from .kernel.errors import Cancelled, Expired
from .kernel.waiter import Waiter
from .parkers import parker

__all__ = ["close", "read", "readv", "write", "writev"]

POLLIN, POLLOUT = originals.select_module.POLLIN, originals.select_module.POLLOUT
MOST_AT_ONCE = originals.select_module.PIPE_BUF
"""So many bytes a pipe takes without blocking once it can be written at all."""

NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
CANNOT = errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ESPIPE

# The standard library's own, taken before anybody can patch them.
standard_read, standard_write, standard_close = os.read, os.write, os.close
standard_readv, standard_writev = os.readv, os.writev
standard_sendfile: Any = getattr(os, "sendfile", None)


def close(fd: int, /) -> None:
    """Close; who waits for this fd among dhagas gets EBADF. Source: ``os.close``."""
    if onlookers:
        for tell in list(onlookers.get(fd, ())):
            tell()
    standard_close(fd)


def read(fd: int, length: int, /) -> bytes:
    """Read what there is, ``length`` bytes at most; b"" at the end. Parks: ``read fd N``. Source: ``os.read``."""
    wait_until(fd, POLLIN)
    return standard_read(fd, length)


def readv(fd: int, buffers: Sequence[Any], /) -> int:
    """Read into some memory. Parks: ``read fd N``. Source: ``os.readv``."""
    wait_until(fd, POLLIN)
    return standard_readv(fd, buffers)


def write(fd: int, data: Any, /) -> int:
    """Write all, where the fd is a blocking one. Parks: ``write fd N``. Source: ``os.write``.

    If a cancel strikes when a part is written, that part's size is returned, and the cancel comes at the next park.
    """
    if type(data) is bytes and len(data) <= MOST_AT_ONCE:
        wait_until(fd, POLLOUT)
        return standard_write(fd, data)
    me = streaming(fd)
    if me is None:
        return standard_write(fd, data)
    with memoryview(data) as view, view.cast("B") as octets:
        return write_all(me, fd, octets)


def writev(fd: int, buffers: Sequence[Any], /) -> int:
    """Write some memory. Parks: ``write fd N``. Source: ``os.writev``."""
    if streaming(fd) is None:
        return standard_writev(fd, buffers)
    return write(fd, b"".join(buffers))


def write_all(me: Waiter, fd: int, octets: memoryview) -> int:
    done = 0
    while True:
        try:
            wait_until(fd, POLLOUT)
        except (Cancelled, Expired) as error:  # what a signal handler raises is raised, as ever
            if not done:
                raise
            me.interrupt(error)
            return done
        done += write_now(fd, octets[done:])
        if done >= len(octets):
            return done


def write_now(fd: int, octets: memoryview) -> int:
    """Write as much as does not block. Returns: how much; 0 if the room is gone."""
    if NOWAIT:
        try:
            return os.pwritev(fd, [octets], -1, NOWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in CANNOT:
                raise
    return standard_write(fd, octets[:MOST_AT_ONCE])


def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int, *more: Any, **options: Any) -> int:
    """Send from a file. Parks: ``write fd N``, until a part could be sent. Source: ``os.sendfile``."""
    if streaming(out_fd) is None:
        return standard_sendfile(out_fd, in_fd, offset, count, *more, **options)  # type: ignore[no-any-return]
    while True:
        wait_until(out_fd, POLLOUT)
        os.set_blocking(out_fd, False)  # for an instant: no flag of the call itself says so
        try:
            return standard_sendfile(out_fd, in_fd, offset, count, *more, **options)  # type: ignore[no-any-return]
        except BlockingIOError:
            pass
        finally:
            os.set_blocking(out_fd, True)


# ---- waiting


def is_stream(fd: int) -> bool:
    """Tell whether data come and go at others' pace: a pipe, a socket, a terminal, what the kernel counts in."""
    mode = os.fstat(fd).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def streaming(fd: int) -> Waiter | None:
    """Return the caller if an operation on this fd may have it park."""
    me = parker()
    if me is None:
        return None
    try:
        return me if is_stream(fd) and os.get_blocking(fd) else None
    except (OSError, TypeError, OverflowError):  # the operation itself complains
        return None


def wait_until(fd: int, event: int) -> None:
    """Park until the fd is ready, unless the caller, or the fd, is not to; what is no fd is for others to refuse."""
    ready = originals.poll()
    try:
        ready.register(fd, event)
    except (TypeError, ValueError, OverflowError):
        return
    if ready.poll(0) or not os.get_blocking(fd):
        return
    me = parker()
    if me is None:
        return
    channel = watched(me, fd)
    try:
        while not ready.poll(0):
            (channel.wait_readable if event == POLLIN else channel.wait_writable)(me)
    finally:
        unwatch(channel)


def watched(me: Waiter, fd: int) -> Channel:
    """Return a channel for one wait, as nobody tells when a bare number stands for another file."""
    channel = Channel(me.scheduler, fd)
    onlookers.setdefault(fd, []).append(channel.close)
    return channel


def unwatch(channel: Channel) -> None:
    others = onlookers[channel.fd]
    others.remove(channel.close)
    if not others:
        del onlookers[channel.fd]
    channel.close()
