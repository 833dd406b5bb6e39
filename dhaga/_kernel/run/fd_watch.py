"""File descriptors: the waiters and the known readiness of each.

A ``FdWatcher`` is one fd at the poller of one scheduler, a ``ThreadFdWatcher`` the same for plain OS threads.
``FdWatchers`` holds the watchers of one object that owns an fd, such as a socket, and closes them with it. Registration
is edge-triggered and lasts as long as the owner: the kernel reports an edge once, so the watcher remembers it.
``readable`` says whether to try the system call (True) or to park at once (False). It becomes True with each read edge,
and False when a read finds nothing. A read that fills less than its buffer has emptied a stream socket: with
``short_read_means_empty`` it clears the flag, and saves a call that would fail.
Two cases break that rule. After a hang-up, an error or urgent data no further edge comes: the poller then sets
``short_read_means_empty`` to False for good. A Unix socket also ends a read where descriptors were passed: with
``may_have_more`` the poller checks the fd once more (``Poller.to_recheck``).
There is no such flag for writing: a writer always tries, because nearly all writes succeed at once.
Not here: how readiness is found out (the pollers), and how it is used (``dhaga/socket.py``).
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
"""The limits of a socket without any."""


def closed_error() -> OSError:
    """Return the error of a wait for a closed fd: EBADF."""
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


@known_layout
class FdWatcher:
    """One file descriptor at one poller: its waiters, and its known readiness.

    ``readable``: try the system call (True) or park (False); writers always try. ``short_read_means_empty``: a short
    read leaves nothing behind; None until the owner has decided. ``may_have_more``: a short read may leave bytes behind
    after all, so the poller checks. The header has the theory.
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
        # Optimistic: no edge will report data that came before the fd was registered.
        self.readable: bool = True
        # None: the owner of the fd decides at its first read, by family and type of the socket.
        self.short_read_means_empty: bool | None = None
        self.may_have_more: bool = False
        self.closed: bool = False
        # In order of arrival; a dictionary removes one of many in O(1).
        self.readers: dict[Waiter, None] = {}
        self.writers: dict[Waiter, None] = {}
        self.read_reason: str = f"read fd {fd}"

    def __repr__(self) -> str:
        return f"<FdWatcher fd {self.fd}, {len(self.readers)} readers and {len(self.writers)} writers parked>"

    def set_interest(self, interest: int) -> None:
        """Set the directions in which the poller watches the fd; ``watched``: reading is among them."""
        self.interest = interest
        self.watched = bool(interest & READ)

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        """Park until the fd may be read (``read fd N``).

        Returns: TIMED_OUT after ``timeout`` seconds. Raises: OSError (EBADF) once it is closed.
        """
        me.prepare_park(self.read_reason, self)
        self.readers[me] = None
        if not self.watched:
            self.start_watching(me, READ)
        return me.park_within(timeout)

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        """Park until the fd may be written (``write fd N``). Returns and raises: as ``wait_readable``."""
        me.prepare_park(f"write fd {self.fd}", self)
        self.writers[me] = None
        if not self.interest & WRITE:
            self.start_watching(me, WRITE)
        return me.park_within(timeout)

    def start_watching(self, me: Waiter, direction: int) -> None:
        """Register a direction with the poller; if that fails, or the fd is closed, wake ``me`` with the error.

        From: a waiter that is parked already. A closing thread ends the watch first and then wakes the waiters it
        finds: so ``me`` is woken in either case.
        """
        try:
            self.poller.register(self, direction)
        except Exception as error:
            self.take_off(me)
            me.wake_parked(error=error)

    def take_off(self, waiter: Waiter) -> bool:
        """Remove a waiter. Returns: False if it was absent."""
        return None in (self.readers.pop(waiter, False), self.writers.pop(waiter, False))

    def _remove(self, waiter: Waiter) -> bool:
        """Undo a wait. Returns: False if a waker has the waiter already."""
        found = self.take_off(waiter)
        if found and not self.readers and not self.writers:
            self.poller.last_waiter_left(self)
        return found

    def ready(self, directions: int) -> None:
        """Set readiness and wake the waiters of these directions. A waiter that finds nothing parks again."""
        if directions & READ:
            self.readable = True
            if self.readers:
                wake_all(self.readers)
        if directions & WRITE and self.writers:
            wake_all(self.writers)

    def close(self) -> None:
        """Remove the fd from the poller, before it is closed, and wake its waiters with EBADF. From: any thread."""
        # The flag first: a waiter that registers meanwhile sees it and unregisters itself.
        self.closed = True
        self.poller.unregister(self)
        for waiters in (self.readers, self.writers):
            for waiter in claim_all(waiters):
                waiter.wake_parked(error=closed_error())


def wake_all(waiters: dict[Waiter, None]) -> None:
    """Wake all present waiters, in order of arrival."""
    for waiter in claim_all(waiters):
        waiter.wake_parked()


def claim_all(waiters: dict[Waiter, None]) -> Iterator[Waiter]:
    """Remove the present waiters one by one, in order of arrival."""
    for waiter in [*waiters]:
        # Popping a waiter is the claim: its own scheduler, in another thread, may end its park at the same time.
        if waiters.pop(waiter, False) is None:
            yield waiter


class ThreadFdWatcher:
    """An fd as plain OS threads watch it: each polls the fd itself, and a self-pipe wakes it when the fd is closed."""

    __slots__ = (
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
        # The write ends of the self-pipes of the threads that wait.
        self.wakeup_fds: list[int] = []

    def __repr__(self) -> str:
        return f"<ThreadFdWatcher fd {self.fd}, {len(self.wakeup_fds)} threads blocked>"

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        """Block until the fd may be read. Returns and raises: as ``FdWatcher.wait_readable``."""
        outcome = self.wait(system.POLLIN, timeout)
        if outcome is not TIMED_OUT:
            self.readable = True
        return outcome

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        """Block until the fd may be written. Returns and raises: as ``FdWatcher.wait_writable``."""
        return self.wait(system.POLLOUT, timeout)

    def wait(self, event: int, timeout: float | None) -> object:
        """Block until the event, the close or the timeout comes. Returns: TIMED_OUT. Raises: OSError (EBADF)."""
        read_end, write_end = system.open_wakeup_pipe()
        self.wakeup_fds.append(write_end)
        try:
            ready = self.closed or self.poll(event, read_end, timeout)
        finally:
            # close() holds the lock while it writes: after this no write can reach a pipe that is closed below.
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
        """Wake every thread that waits for the fd with EBADF, before it is closed. From: any thread."""
        self.closed = True
        with self.lock:
            for write_end in self.wakeup_fds:
                system.write_wakeup(write_end, b"!")


AnyFdWatcher: TypeAlias = FdWatcher | ThreadFdWatcher


class LimitedWaits:
    """The waits of a socket with limits of the operating system (SO_RCVTIMEO, SO_SNDTIMEO), as socket(7) has them.

    A class derived from it and a watcher carries the limits: other sockets pay nothing. The fast paths leave it alone.
    """

    __slots__ = ()
    limits: tuple[float | None, float | None]
    """The seconds of a wait to read and of one to write, where the caller sets no timeout."""

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> object:
        return wait_limited(super().wait_readable, me, timeout, self.limits[0])  # type: ignore[misc]

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> object:
        return wait_limited(super().wait_writable, me, timeout, self.limits[1])  # type: ignore[misc]


def wait_limited(
    wait: Callable[[Waiter, float | None], object], me: Waiter, timeout: float | None, limit: float | None
) -> object:
    """Wait. Raises: BlockingIOError after ``limit`` seconds, if the caller has no timeout."""
    if timeout is not None or limit is None:
        return wait(me, timeout)
    if (outcome := wait(me, limit)) is TIMED_OUT:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return outcome


@lru_cache(maxsize=64)
def limited(kind: Any, limits: tuple[float | None, float | None]) -> Any:
    """Return the class of watchers that keep these limits."""
    if limits == UNLIMITED:
        return kind
    return type(kind.__name__, (LimitedWaits, kind), {"__slots__": (), "limits": limits})


class FdWatchers(dict[Any, AnyFdWatcher]):
    """The watchers of one fd, by scheduler (None: the plain OS threads); they end with the object that owns the fd."""

    __slots__ = ("closed", "fd", "limits")

    def __init__(self, fd: int, limits: tuple[float | None, float | None] = UNLIMITED) -> None:
        self.fd: int = fd
        self.closed: bool = False
        # See LimitedWaits.
        self.limits: tuple[float | None, float | None] = limits

    def limit(self, limits: tuple[float | None, float | None]) -> None:
        """Set the limits of later waits."""
        self.limits = limits
        for watcher in list(self.values()):
            kind: Any = FdWatcher if isinstance(watcher, FdWatcher) else ThreadFdWatcher
            watcher.__class__ = limited(kind, limits)

    def __del__(self) -> None:
        """Leave the pollers, because the owner was dropped without a close; its fd is closed by now."""
        if not self.closed:
            self.close()

    def of(self, waiter: Any) -> AnyFdWatcher:
        """Return the watcher of the fd for the waiter's scheduler, or for plain threads.

        Raises: OSError (EBADF) once closed.
        """
        scheduler = getattr(waiter, "scheduler", None)
        watcher = self.get(scheduler)
        if watcher is None:
            self.drop_ended()
            made: Any = ThreadFdWatcher(self.fd) if scheduler is None else FdWatcher(scheduler, self.fd)
            if self.limits is not UNLIMITED:
                made.__class__ = limited(made.__class__, self.limits)
            # Atomic: two threads that call at once get the same watcher.
            watcher = self.setdefault(scheduler, made)
        # close() sets the flag before it looks for watchers. Checked here once it can find this one.
        if self.closed:
            raise closed_error()
        return watcher

    def drop_ended(self) -> None:
        """Drop the watchers of schedulers that have ended: a shared fd may outlive many of them. From: any thread."""
        for scheduler in list(self.keys()):
            if scheduler is not None and not scheduler.thread_ident:
                self.pop(scheduler, None)

    def close(self) -> None:
        """Remove the fd from every poller, before it is closed, and wake its waiters. From: any thread."""
        self.closed = True
        for watcher in list(self.values()):
            watcher.close()
        if hooks.before_fd_close:
            for callback in list(hooks.before_fd_close.get(self.fd, ())):
                callback()
