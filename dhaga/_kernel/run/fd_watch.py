"""Watchers of file descriptors: each watcher keeps the waiters and the known readiness of one fd.

A ``FdWatcher`` watches an fd at the poller of one scheduler; plain OS threads use a ``ThreadFdWatcher``. ``FdWatchers``
holds all watchers of an fd, and is closed by the owner of the fd, such as a socket. With ``edge_pollers.py``, a
registration is edge-triggered, and lasts as long as the owner. The operating system reports an edge (the fd becomes
ready) only once: the watcher stores it in ``readable``.
``readable`` says whether a reader tries the system call (True) or parks at once (False). Each read edge sets the flag,
and a read that finds nothing clears it. A short read, which does not fill its buffer, has emptied a stream socket. With
``short_read_means_empty``, a short read also clears ``readable``, which saves a system call that would fail.
This rule has two exceptions. After a hang-up, an error or urgent data, no further edge comes: the poller then sets
``short_read_means_empty`` to False permanently. A read of a Unix socket may also be short because it ends where file
descriptors were passed: if ``may_have_more`` is set, the poller checks the fd again (``Poller.to_recheck``).
Writing needs no such flag: a writer always tries the call, because nearly all writes succeed at once.
Not here: detecting readiness (the pollers), and using it (``dhaga/socket.py``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import hooks, originals
from ..fast.compiled import known_layout
from ..platform.system import system
from ..wait.waiter import TIMED_OUT, Waiter

if TYPE_CHECKING:
    from .poller import Poller
    from .scheduler import Scheduler

READ, WRITE = 1, 2
UNLIMITED = None, None
"""The value of ``limits`` for a socket without time limits."""


def closed_error() -> OSError:
    """Return the error that a wait for a closed fd raises: EBADF."""
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


@known_layout
class FdWatcher:
    """One file descriptor at one poller, with its waiters and its known readiness.

    ``readable``: whether a reader tries the system call or parks. ``short_read_means_empty``: whether a short read has
    emptied the fd; None until the owner decides. ``may_have_more``: whether a short read may still leave bytes behind,
    so that the poller checks the fd. The module's docstring explains these flags.
    """

    __slots__ = (
        "closed",
        "fd",
        "interest",
        "may_have_more",
        "poller",
        "read_reason",
        "readable",
        "readers",
        "scheduler",
        "short_read_means_empty",
        "watched",
        "writers",
    )

    def __init__(self, scheduler: Scheduler, fd: int) -> None:
        self.scheduler: Scheduler = scheduler
        self.poller: Poller = scheduler.poller
        self.fd: int = fd
        self.interest: int = 0
        self.watched: bool = False
        # The flag is True at first: only a system call can find data that came before the registration of the fd.
        self.readable: bool = True
        # None: the owner of the fd decides at its first read, from the socket's family and type.
        self.short_read_means_empty: bool | None = None
        self.may_have_more: bool = False
        self.closed: bool = False
        # The waiters in order of arrival. From a dictionary, any waiter is removed in O(1).
        self.readers: dict[Waiter, None] = {}
        self.writers: dict[Waiter, None] = {}
        self.read_reason: str = f"read fd {fd}"

    def __repr__(self) -> str:
        return f"<FdWatcher fd {self.fd}, {len(self.readers)} readers and {len(self.writers)} writers parked>"

    def set_interest(self, interest: int) -> None:
        """Store the directions in which the poller watches the fd. ``watched`` is True if the poller watches for
        reading.
        """
        self.interest = interest
        self.watched = bool(interest & READ)

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        """Park until the fd can be read (reason ``read fd N``).

        Returns: TIMED_OUT after ``timeout`` seconds. Raises: OSError (EBADF) once the fd is closed.
        """
        me.prepare_park(self.read_reason, self)
        self.readers[me] = None
        if not self.watched:
            self.start_watching(me, READ)
        return me.park_within(timeout)

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        """Park until the fd can be written (reason ``write fd N``). Returns, raises: the same as ``wait_readable``."""
        me.prepare_park(f"write fd {self.fd}", self)
        self.writers[me] = None
        if not self.interest & WRITE:
            self.start_watching(me, WRITE)
        return me.park_within(timeout)

    def start_watching(self, me: Waiter, direction: int) -> None:
        """Register a direction with the poller. If this fails, or the fd is closed, wake ``me`` with the error.

        From: a waiter that is already marked as parked. Another thread may close the fd meanwhile: that thread
        unregisters the watcher, and then wakes all waiters of the watcher. So either that thread or this method wakes
        ``me``.
        """
        try:
            self.poller.register(self, direction)
        except Exception as error:
            self.take_off(me)
            me.wake_parked(error=error)

    def take_off(self, waiter: Waiter) -> bool:
        """Remove a waiter. Returns: False if the waiter was absent."""
        return None in (self.readers.pop(waiter, False), self.writers.pop(waiter, False))

    def _remove(self, waiter: Waiter) -> bool:
        """Undo a wait. Returns: False if a waker has already taken the waiter."""
        found = self.take_off(waiter)
        if found and not self.readers and not self.writers:
            self.poller.last_waiter_left(self)
        return found

    def ready(self, directions: int) -> None:
        """Set readiness and wake the waiters of these directions. A waiter parks again if its call finds nothing."""
        if directions & READ:
            self.readable = True
            if self.readers:
                wake_all(self.readers)
        if directions & WRITE and self.writers:
            wake_all(self.writers)

    def close(self) -> None:
        """Unregister the fd, before it is closed, and wake its waiters with EBADF. From: any thread."""
        # Set the flag first: a waiter that registers the fd meanwhile sees the flag, and unregisters the fd again.
        self.closed = True
        self.poller.unregister(self)
        for waiters in (self.readers, self.writers):
            for waiter in claim_all(waiters):
                waiter.wake_parked(error=closed_error())


def wake_all(waiters: dict[Waiter, None]) -> None:
    """Wake all current waiters, in order of arrival."""
    for waiter in claim_all(waiters):
        waiter.wake_parked()


def claim_all(waiters: dict[Waiter, None]) -> Iterator[Waiter]:
    """Remove and yield the current waiters one by one, in order of arrival."""
    for waiter in [*waiters]:
        # A pop claims the waiter: at the same time the waiter's scheduler may try to end the park in another thread.
        if waiters.pop(waiter, False) is None:
            yield waiter


class ThreadFdWatcher:
    """A watcher for plain OS threads. Each thread polls the fd and its own self-pipe, to which ``close`` writes."""

    __slots__ = (
        "__weakref__",
        "closed",
        "fd",
        "lock",
        "may_have_more",
        "readable",
        "scheduler",
        "short_read_means_empty",
        "wakeup_fds",
    )

    def __init__(self, fd: int) -> None:
        self.scheduler: None = None
        self.fd: int = fd
        self.readable: bool = True
        self.short_read_means_empty: bool | None = None
        self.may_have_more: bool = False
        self.closed: bool = False
        self.lock: Any = originals.allocate_lock()
        # The write ends of the waiting threads' self-pipes.
        self.wakeup_fds: list[int] = []

    def __repr__(self) -> str:
        return f"<ThreadFdWatcher fd {self.fd}, {len(self.wakeup_fds)} threads blocked>"

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        """Block until the fd can be read. Returns, raises: the same as ``FdWatcher.wait_readable``."""
        outcome = self.wait(system.POLLIN, timeout)
        if outcome is not TIMED_OUT:
            self.readable = True
        return outcome

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        """Block until the fd can be written. Returns, raises: the same as ``FdWatcher.wait_writable``."""
        return self.wait(system.POLLOUT, timeout)

    def wait(self, event: int, timeout: float | None) -> object:
        """Block until ``event``. Returns: TIMED_OUT after ``timeout`` seconds. Raises: OSError (EBADF) once the fd is
        closed.
        """
        read_end, write_end = system.open_wakeup_pipe()
        self.wakeup_fds.append(write_end)
        try:
            ready = self.closed or self.poll(event, read_end, timeout)
        finally:
            # close() holds the lock while it writes to the pipes. So after this block, close() cannot write to this
            # pipe.
            with self.lock:
                self.wakeup_fds.remove(write_end)
            system.close_wakeup(write_end)
            system.close_wakeup(read_end)
        if self.closed:
            raise closed_error()
        return ready or TIMED_OUT

    def poll(self, event: int, read_end: int, timeout: float | None) -> Any:
        poll = originals.poll()
        poll.register(self.fd, event)
        poll.register(read_end, system.POLLIN)
        return poll.poll(None if timeout is None else max(0.0, timeout) * 1000)

    def close(self) -> None:
        """Make the waits of all threads for this fd raise EBADF, before the fd is closed. From: any thread."""
        self.closed = True
        with self.lock:
            for write_end in self.wakeup_fds:
                system.write_wakeup(write_end, b"!")


AnyFdWatcher: TypeAlias = FdWatcher | ThreadFdWatcher


class LimitedWaits:
    """Mixin for watchers of a socket with time limits (SO_RCVTIMEO, SO_SNDTIMEO). Source: socket(7).

    ``limited`` derives a class from this one and a watcher's class, so that sockets without limits pay nothing. The
    compiled functions leave watchers with limits to the Python functions.
    """

    __slots__ = ()
    limits: tuple[float | None, float | None]
    """The time limits in seconds of a wait to read and of a wait to write, for callers without a timeout."""

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        return wait_limited(super().wait_readable, me, timeout, self.limits[0])  # type: ignore[misc]

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        return wait_limited(super().wait_writable, me, timeout, self.limits[1])  # type: ignore[misc]


def wait_limited(
    wait: Callable[[Waiter, float | None], object], me: Waiter, timeout: float | None, limit: float | None
) -> object:
    """Call ``wait`` with the caller's timeout or, if there is no timeout, with the limit. Raises: BlockingIOError after
    ``limit`` seconds.
    """
    if timeout is not None or limit is None:
        return wait(me, timeout)
    if (outcome := wait(me, limit)) is TIMED_OUT:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return outcome


@lru_cache(maxsize=64)
def limited(kind: Any, limits: tuple[float | None, float | None]) -> Any:
    """Return a subclass of the watcher class ``kind`` that keeps these limits; without limits, ``kind`` itself."""
    if limits == UNLIMITED:
        return kind
    return type(kind.__name__, (LimitedWaits, kind), {"__slots__": (), "limits": limits})


class FdWatchers(dict[Any, AnyFdWatcher]):
    """The watchers of one fd, by scheduler (None for plain OS threads). The watchers end with the object that owns the
    fd.
    """

    __slots__ = ("closed", "fd", "limits")

    def __init__(self, fd: int, limits: tuple[float | None, float | None] = UNLIMITED) -> None:
        self.fd: int = fd
        self.closed: bool = False
        # See LimitedWaits.
        self.limits: tuple[float | None, float | None] = limits

    def limit(self, limits: tuple[float | None, float | None]) -> None:
        """Set the time limits of later waits."""
        self.limits = limits
        for watcher in list(self.values()):
            kind: Any = FdWatcher if isinstance(watcher, FdWatcher) else ThreadFdWatcher
            watcher.__class__ = limited(kind, limits)

    def __del__(self) -> None:
        """Unregister the fd if its owner was freed without a call of ``close``. By then the fd itself is closed."""
        if not self.closed:
            self.close()

    def of(self, waiter: Any) -> AnyFdWatcher:
        """Return the watcher of the fd for the waiter's scheduler, or for plain OS threads.

        Raises: OSError (EBADF) once the fd is closed.
        """
        scheduler = getattr(waiter, "scheduler", None)
        watcher = self.get(scheduler)
        if watcher is None:
            self.drop_ended()
            made: Any = ThreadFdWatcher(self.fd) if scheduler is None else FdWatcher(scheduler, self.fd)
            if self.limits is not UNLIMITED:
                made.__class__ = limited(made.__class__, self.limits)
            # setdefault() is atomic: two threads that call at once get the same watcher.
            watcher = self.setdefault(scheduler, made)
        # Check the flag only after adding the watcher, because close() sets the flag and then looks for watchers.
        if self.closed:
            raise closed_error()
        return watcher

    def drop_ended(self) -> None:
        """Remove the watchers of ended schedulers: a shared fd may outlive many schedulers. From: any thread."""
        for scheduler in list(self.keys()):
            if scheduler is not None and not scheduler.thread_ident:
                self.pop(scheduler, None)

    def close(self) -> None:
        """Unregister the fd from every poller, before the fd is closed, and wake its waiters. From: any thread."""
        closed_before, self.closed = self.closed, True
        for watcher in list(self.values()):
            watcher.close()
        # The hooks know only the fd's number, and at a second call the number may belong to another file.
        if hooks.before_fd_close and not closed_before:
            for callback in list(hooks.before_fd_close.get(self.fd, ())):
                callback()
