"""The functions of ``os`` that read, write and close by file descriptor (fd). They park where ``os`` would block.

``O_NONBLOCK`` is not changed, because a parent or child process may share the open file description. So each call first
polls the fd, then reads or writes only as much data as is possible without waiting. A regular file is always ready, so
its only extra cost is one poll.

A bare fd has no owner: it may be closed and reused at any time. So each wait creates a ``FdWatcher`` and registers the
watcher in ``hooks.before_fd_close``. There, ``close`` finds the watcher, and wakes the waiter with EBADF.
"""

from __future__ import annotations

import errno
import operator
import os
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._kernel import hooks, originals
from .._kernel.errors import Cancelled, Expired, ParkError
from .._kernel.faces.stdlib_face import builtin_function
from .._kernel.own_fds import own_fds, ranges_without_own
from .._kernel.platform.system import system
from .._kernel.run.attachment import forget_file, watched_fds
from .._kernel.run.fd_watch import FdWatcher, limited
from .._kernel.run.turn_budget import end_turn, waiter_that_is_due
from .._kernel.wait.current import parking_waiter
from .._kernel.wait.waiter import Waiter
from .cached_reads import NOWAIT, UNSUPPORTED
from .close_hooks import add_close_hook, remove_close_hook
from .kernel_limits import limits_of_fd

__all__ = ["close", "closerange", "dup2", "read", "readinto", "readv", "sendfile", "write", "writev"]

POLLIN, POLLOUT, PIPE_BUF = system.POLLIN, system.POLLOUT, system.PIPE_BUF
"""Poll events, and the number of bytes that a writable pipe always accepts (POSIX: such writes are atomic)."""

LINUX = sys.platform == "linux"
MASTER = system.TERMINAL_MASTER
"""The device number of a pseudo-terminal's master on Linux, ``/dev/ptmx``."""

# The standard library's functions, taken before a patch can replace them.
standard_open, standard_read, standard_write, standard_close = os.open, os.read, os.write, os.close
standard_readv, standard_writev = system.readv, system.writev
standard_readinto: Any = getattr(os, "readinto", None)
standard_closerange, standard_dup2 = os.closerange, os.dup2
standard_sendfile: Any = getattr(os, "sendfile", None)


@builtin_function
def close(fd: int, /) -> None:
    """Close an fd; dhagas that wait for the fd get EBADF. Source: ``os.close``.

    Raises: OSError (EBADF) also for an fd that a scheduler has opened for itself.
    """
    if fd in own_fds:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    call_close_hooks(fd)
    forget_file(fd)
    standard_close(fd)


def call_close_hooks(fd: int) -> None:
    """Remove the waiters of an fd from the pollers before its close, because the number may be reused at once."""
    if hooks.before_fd_close:
        for close_hook in list(hooks.before_fd_close.get(fd, ())):
            close_hook()


def call_replace_hooks(fd: int) -> None:
    """Wake the callers that poll ``fd`` together with other fds, so that they poll again. From: ``dup2``."""
    for replace_hook in list(hooks.before_fd_close.get(fd, {}).values()):
        if replace_hook is not None:
            replace_hook()


@builtin_function
def dup2(fd: int, fd2: int, inheritable: bool = True) -> int:
    """Duplicate an fd under the number ``fd2``. Source: ``os.dup2``.

    Dhagas that wait for ``fd2`` retry their calls, and so wait for the new file: an OS thread would wait for the file
    that is replaced. Raises: OSError (EBADF) also for an fd that a scheduler has opened for itself.
    """
    fd2 = operator.index(fd2)
    if fd2 in own_fds:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    if fd2 == fd:
        return standard_dup2(fd, fd2, inheritable)
    # The first call finds the former file's registrations, the second one those of callers that retried too early.
    forget_file(fd2)
    try:
        return standard_dup2(fd, fd2, inheritable)
    finally:
        forget_file(fd2)
        call_replace_hooks(fd2)


@builtin_function
def closerange(fd_low: int, fd_high: int, /) -> None:
    """Close the fds from ``fd_low`` to below ``fd_high``, except fds that schedulers have opened for themselves.

    Dhagas that wait for a closed fd get EBADF. Source: ``os.closerange``.
    """
    for low, high in ranges_without_own(operator.index(fd_low), operator.index(fd_high)):
        for fd in [fd for fd in list(hooks.before_fd_close) if low <= fd < high]:
            call_close_hooks(fd)
        for fd in [fd for fd in watched_fds() if low <= fd < high]:
            forget_file(fd)
        standard_closerange(low, high)


@builtin_function
def read(fd: int, length: int, /) -> bytes:
    """Read the available bytes, at most ``length``; b"" at the end. Parks: ``read fd N``. Source: ``os.read``."""
    if length:
        wait_until(fd, POLLIN)
    return standard_read(fd, length)


@builtin_function
def readv(fd: int, buffers: Sequence[Any], /) -> int:
    """Read into several buffers. Parks: ``read fd N``. Source: ``os.readv``."""
    if have_room(buffers):
        wait_until(fd, POLLIN)
    return standard_readv(fd, buffers)


@builtin_function
def readinto(fd: int, buffer: Any, /) -> int:
    """Read into a buffer. Parks: ``read fd N``. Source: ``os.readinto`` of Python 3.14."""
    if have_room((buffer,)):
        wait_until(fd, POLLIN)
    return standard_readv(fd, (buffer,)) if standard_readinto is None else standard_readinto(fd, buffer)


def have_room(buffers: Sequence[Any]) -> bool:
    """Return whether a read into these buffers may have to wait: a read of 0 bytes returns at once."""
    try:
        return any(memoryview(buffer).nbytes for buffer in buffers)
    except TypeError:  # the read itself raises a better error
        return False


@builtin_function
def write(fd: int, data: Any, /) -> int:
    """Write all data if the fd is in blocking mode. Parks: ``write fd N``. Source: ``os.write``.

    Returns: the number of bytes written. If a cancel arrives halfway, only a part is written, and the cancel stays
    pending.
    """
    # Fast path: a writable pipe has room for PIPE_BUF bytes, so one poll and one write suffice.
    if type(data) is bytes and len(data) <= PIPE_BUF and not os.isatty(fd):
        if data:
            wait_until(fd, POLLOUT)
        return standard_write(fd, data)
    me = parking_caller_for(fd)
    if me is None:
        return standard_write(fd, data)
    with memoryview(data) as view, view.cast("B") as octets:
        if not octets:
            return standard_write(fd, data)
        return write_all(me, fd, octets, partial(wait_until, fd, POLLOUT), partial(write_now, fd))


@builtin_function
def writev(fd: int, buffers: Sequence[Any], /) -> int:
    """Write several buffers. Parks: ``write fd N``. Source: ``os.writev``."""
    if parking_caller_for(fd) is None:
        return standard_writev(fd, buffers)
    # The buffers are joined because a partial writev would have to be resumed in the middle of a buffer.
    return write(fd, b"".join(buffers))


def write_all(
    me: Waiter,
    fd: int,
    octets: memoryview,
    wait: Callable[[], object],
    write_part: Callable[[memoryview], int],
    done: int = 0,
) -> int:
    """Write the octets from position ``done`` on, one part after each ``wait`` for room. Returns: like ``go_on``."""

    def step(done: int) -> int:
        with octets[done:] as rest:  # released, because a stored error would keep this frame and the view alive
            return write_part(rest)

    return go_on(me, fd, len(octets), wait, step, done)


def go_on(
    me: Waiter, fd: int, size: int, wait: Callable[[], object], step: Callable[[int], int | None], done: int = 0
) -> int:
    """Call ``step(done)`` after each ``wait`` for room, until ``size`` bytes are written or ``step`` returns None.

    Source: write(2), send(2) and sendfile(2) on an fd in blocking mode. Returns: the number of bytes written, which is
    below ``size`` if a cancel, or an error such as EPIPE, comes after the first part.
    """
    while True:
        try:
            wait()
            if done and has_error(fd):
                return done
            part = step(done)
        except (Cancelled, Expired) as error:  # errors of signal handlers are not caught, as in ``os``
            if not done:
                raise
            # The reader may have seen the written bytes, so the caller must get their number. The cancel is raised
            # later.
            me.cancel_with(error)
            return done
        except (OSError, ParkError):
            if not done:
                raise
            return done
        if part is None or (done := done + part) >= size:
            return done


def has_error(fd: int) -> bool:
    """Return whether an error of the peer is pending. The program's next write must raise this error.

    A socket reports an error such as ECONNRESET only once, and later writes get EPIPE. So the current write must not
    consume the error.
    """
    return has_event(fd, 0)


def has_event(fd: int, events: int) -> bool:
    """Return whether poll(2) finds one of the events, or an error or hang-up, now."""
    ready = originals.poll()
    ready.register(fd, events)
    return bool(ready.poll(0))


def write_now(fd: int, octets: memoryview) -> int:
    """Write as much as possible without blocking. Returns: the number of bytes; 0 if the buffer is full."""
    # Without RWF_NOWAIT, a write of more than PIPE_BUF bytes could block although the fd is writable.
    count = write_free_space(fd, octets)
    return standard_write(fd, octets[:PIPE_BUF]) if count is None else count


def write_free_space(fd: int, octets: memoryview) -> int | None:
    """Fill the free space of the buffer in one call. Returns: the number of bytes; None if the call could block."""
    if NOWAIT:
        try:
            return os.pwritev(fd, [octets], -1, NOWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
    return write_to_terminal(fd, octets) if os.isatty(fd) else None


def write_to_terminal(fd: int, octets: memoryview) -> int:
    """Write as much as a terminal accepts at once. Returns: the number of bytes.

    A writable terminal may have room for only one byte. It refuses RWF_NOWAIT, and does not report its free space.
    """
    own = reopened_terminal(fd)
    try:
        if own is None:
            os.set_blocking(fd, False)
        return standard_write(fd if own is None else own, octets)
    except BlockingIOError:
        return 0
    finally:
        os.set_blocking(fd, True) if own is None else standard_close(own)


def reopened_terminal(fd: int) -> int | None:
    """Return a new non-blocking fd of the same terminal, with separate flags; None if it cannot be opened again.

    The shell and all programs at a terminal share its flags, so their writes could fail if this call set O_NONBLOCK.
    The master of a pseudo-terminal is not opened again, because that would create another terminal. A master has only
    one owner, so its flags may be changed.
    """
    if os.fstat(fd).st_rdev == MASTER or not LINUX:
        return None
    try:
        return standard_open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # after su, in exclusive mode (TIOCEXCL), or without /proc
        return None


@builtin_function
def sendfile(out_fd: int, in_fd: int, offset: int | None, count: int, *more: Any, **options: Any) -> int:
    """Send bytes from a file. Parks: ``write fd N``. Source: ``os.sendfile``.

    Returns: the number of bytes sent: on Linux, ``count`` bytes for a socket in blocking mode; otherwise as many as
    fit.
    """
    me = parking_caller_for(out_fd)
    if me is None:
        return standard_sendfile(out_fd, in_fd, offset, count, *more, **options)  # type: ignore[no-any-return]

    def step(done: int) -> int | None:
        start, left = (offset, count) if not done else (None if offset is None else offset + done, count - done)
        # The fd is non-blocking for this one call, because sendfile(2) has no flag for that. Another process that
        # shares the open file may get EAGAIN meanwhile.
        os.set_blocking(out_fd, False)
        try:
            return standard_sendfile(out_fd, in_fd, start, left, *more, **options) or None
        except BlockingIOError:
            return 0
        finally:
            os.set_blocking(out_fd, True)

    sends_all = LINUX and stat.S_ISSOCK(os.fstat(out_fd).st_mode)
    return go_on(me, out_fd, count if sends_all else 1, partial(wait_until, out_fd, POLLOUT), step)


# ---- waiting


def may_block(fd: int) -> bool:
    """Return whether reads and writes of an fd may have to wait, as with pipes, sockets, terminals and eventfds."""
    mode = os.fstat(fd).st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def parking_caller_for(fd: int) -> Waiter | None:
    """Return the caller if an operation on this fd may park the caller, else None."""
    me = parking_waiter()
    if me is None:
        return None
    try:
        return me if may_block(fd) and os.get_blocking(fd) else None
    except (OSError, TypeError, OverflowError):  # the operation itself raises a better error
        return None


def wait_until(fd: int, event: int) -> None:
    """Park until the fd is ready for ``event``. Return at once if the caller cannot park or the fd is non-blocking.

    Invalid fds are ignored here, because the caller's operation raises the error.
    """
    # Unlike select(2), poll(2) accepts fds above 1023. Unlike epoll, it leaves nothing registered.
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
        # Poll again after each wake, because another reader may have taken the data.
        while not ready.poll(0):
            (watcher.wait_readable if event == POLLIN else watcher.wait_writable)(me)
    finally:
        unwatch(watcher)


def is_open_for(fd: int, event: int) -> bool:
    """Return whether an fd was opened for the event's direction. The wrong end of a pipe never gets the event."""
    mode = system.access_mode(fd)
    return mode != (os.O_WRONLY if event == POLLIN else os.O_RDONLY)


def watch_once(me: Waiter, fd: int) -> Any:
    """Return a watcher for a single wait, because at the next wait the fd may belong to another file."""
    watcher: Any = FdWatcher(me.scheduler, fd)
    watcher.__class__ = limited(FdWatcher, limits_of_fd(fd))
    # No object owns the fd, so only our close() can report that it is closed.
    add_close_hook(fd, watcher.close)
    return watcher


def unwatch(watcher: FdWatcher) -> None:
    """Remove the watcher of ``watch_once`` from its poller and from the close hooks."""
    remove_close_hook(watcher.fd, watcher.close)
    watcher.close()
