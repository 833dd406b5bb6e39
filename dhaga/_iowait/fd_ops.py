"""Reading and writing by bare file descriptor, as ``os`` does, but parking where the call would block.

``O_NONBLOCK`` is not changed: it belongs to the open file description, which a parent or child process may share. So
each call first polls the fd, then passes no more data than the fd accepts at once. For a regular file, which is always
ready, that costs one poll.

A bare number has no owner: it may be closed and reused at any time. So each wait makes a ``FdWatcher`` of its own, and
registers it in ``hooks.before_fd_close``, through which ``close`` wakes it with EBADF.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Sequence
from typing import Any

from .._kernel import hooks, originals
from .._kernel.errors import Cancelled, Expired
from .._kernel.run.fd_watch import FdWatcher
from .._kernel.run.turn_budget import end_turn, waiter_that_is_due
from .._kernel.wait.current import parking_waiter
from .._kernel.wait.waiter import Waiter
from .cached_reads import NOWAIT, UNSUPPORTED
from .close_hooks import add_close_hook, remove_close_hook

__all__ = ["close", "read", "readinto", "readv", "write", "writev"]

POLLIN, POLLOUT = originals.select_module.POLLIN, originals.select_module.POLLOUT
PIPE_BUF = originals.select_module.PIPE_BUF
"""Bytes that a pipe takes without blocking once it is writable at all (POSIX: writes up to PIPE_BUF are atomic)."""

# The standard library's functions, taken before a patch can replace them.
standard_read, standard_write, standard_close = os.read, os.write, os.close
standard_readv, standard_writev = os.readv, os.writev
standard_readinto: Any = getattr(os, "readinto", None)
standard_sendfile: Any = getattr(os, "sendfile", None)


def close(fd: int, /) -> None:
    """Close an fd; dhagas that wait for it get EBADF. Source: ``os.close``."""
    if hooks.before_fd_close:
        # The waiters must leave the pollers first: the number may be reused at once after the close.
        for close_hook in list(hooks.before_fd_close.get(fd, ())):
            close_hook()
    standard_close(fd)


def read(fd: int, length: int, /) -> bytes:
    """Read the available bytes, at most ``length``; b"" at the end. Parks: ``read fd N``. Source: ``os.read``."""
    wait_until(fd, POLLIN)
    return standard_read(fd, length)


def readv(fd: int, buffers: Sequence[Any], /) -> int:
    """Read into several buffers. Parks: ``read fd N``. Source: ``os.readv``."""
    wait_until(fd, POLLIN)
    return standard_readv(fd, buffers)


def readinto(fd: int, buffer: Any, /) -> int:
    """Read into a buffer. Parks: ``read fd N``. Source: ``os.readinto`` of Python 3.14, on every Python."""
    wait_until(fd, POLLIN)
    return standard_readv(fd, (buffer,)) if standard_readinto is None else standard_readinto(fd, buffer)


def write(fd: int, data: Any, /) -> int:
    """Write all data if the fd is in blocking mode. Parks: ``write fd N``. Source: ``os.write``.

    Returns: the size of the part already written if a cancel arrives halfway; the cancel stays pending.
    """
    # Fast path: a writable pipe has room for PIPE_BUF bytes, so one poll suffices and nothing is written twice.
    if type(data) is bytes and len(data) <= PIPE_BUF:
        wait_until(fd, POLLOUT)
        return standard_write(fd, data)
    me = parking_caller_for(fd)
    if me is None:
        return standard_write(fd, data)
    with memoryview(data) as view, view.cast("B") as octets:
        return write_all(me, fd, octets)


def writev(fd: int, buffers: Sequence[Any], /) -> int:
    """Write several buffers. Parks: ``write fd N``. Source: ``os.writev``."""
    if parking_caller_for(fd) is None:
        return standard_writev(fd, buffers)
    # Joined: a partial writev would have to be resumed in the middle of a buffer.
    return write(fd, b"".join(buffers))


def write_all(me: Waiter, fd: int, octets: memoryview) -> int:
    """Write all octets, a part at each readiness. Returns: the number written, fewer than all after a cancel."""
    done = 0
    while True:
        try:
            wait_until(fd, POLLOUT)
        except (Cancelled, Expired) as error:  # an error raised by a signal handler is passed on, as in the standard
            if not done:
                raise
            # The reader has seen these bytes. Raising now would hide their number, so the caller gets the count first.
            me.cancel_with(error)
            return done
        # Errors after the first part are raised, as by write(2) of the next part.
        with octets[done:] as rest:  # released: a kept error keeps the frames that have it
            done += write_now(fd, rest)
        if done >= len(octets):
            return done


def write_now(fd: int, octets: memoryview) -> int:
    """Write as much as does not block. Returns: the number of bytes; 0 if the buffer is full."""
    # RWF_NOWAIT fills the free space in one call. Without it only PIPE_BUF bytes are safe once the fd is writable.
    if NOWAIT:
        try:
            return os.pwritev(fd, [octets], -1, NOWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
    return standard_write(fd, octets[:PIPE_BUF])


def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int, *more: Any, **options: Any) -> int:
    """Send from a file. Parks: ``write fd N``, until some bytes could be sent. Source: ``os.sendfile``."""
    if parking_caller_for(out_fd) is None:
        return standard_sendfile(out_fd, in_fd, offset, count, *more, **options)  # type: ignore[no-any-return]
    while True:
        wait_until(out_fd, POLLOUT)
        # Non-blocking for this one call: sendfile(2) has no flag for it. A process that shares the file may see EAGAIN
        # once.
        os.set_blocking(out_fd, False)
        try:
            return standard_sendfile(out_fd, in_fd, offset, count, *more, **options)  # type: ignore[no-any-return]
        except BlockingIOError:
            pass
        finally:
            os.set_blocking(out_fd, True)


# ---- waiting


def may_block(fd: int) -> bool:
    """Return whether reads and writes may have to wait: pipes, sockets, terminals, eventfds and the like."""
    mode = os.fstat(fd).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def parking_caller_for(fd: int) -> Waiter | None:
    """Return the caller if an operation on this fd may park it, else None."""
    me = parking_waiter()
    if me is None:
        return None
    try:
        return me if may_block(fd) and os.get_blocking(fd) else None
    except (OSError, TypeError, OverflowError):  # the operation itself raises a better error
        return None


def wait_until(fd: int, event: int) -> None:
    """Park until the fd has ``event``; return at once if the caller cannot park or the fd is non-blocking.

    The operation itself refuses anything that is not an fd.
    """
    # poll(2), unlike select(2), takes fds above 1023; unlike epoll it leaves nothing registered.
    ready = originals.poll()
    try:
        ready.register(fd, event)
    except (TypeError, ValueError, OverflowError):
        return
    due = waiter_that_is_due()
    if due is not None and os.get_blocking(fd):
        end_turn(due)
    if ready.poll(0) or not os.get_blocking(fd) or not is_open_for(fd, event):
        return
    me = parking_waiter()
    if me is None:
        return
    watcher = watch_once(me, fd)
    try:
        # Another reader may have taken the data between the wake and this poll: readiness is a hint, so poll again.
        while not ready.poll(0):
            (watcher.wait_readable if event == POLLIN else watcher.wait_writable)(me)
    finally:
        unwatch(watcher)


def is_open_for(fd: int, event: int) -> bool:
    """Return whether an fd was opened for what the event announces: the wrong end of a pipe would never have it."""
    mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    return mode != (os.O_WRONLY if event == POLLIN else os.O_RDONLY)


def watch_once(me: Waiter, fd: int) -> FdWatcher:
    """Return a watcher for a single wait: a bare number may mean another file at the next one."""
    watcher = FdWatcher(me.scheduler, fd)
    # No object owns a bare number, so only our close() can report its end.
    add_close_hook(fd, watcher.close)
    return watcher


def unwatch(watcher: FdWatcher) -> None:
    """Remove the watcher of ``watch_once`` from its poller and from the close hooks."""
    remove_close_hook(watcher.fd, watcher.close)
    watcher.close()
