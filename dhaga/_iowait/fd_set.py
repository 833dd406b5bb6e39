"""The waits of ``select`` and ``poll``: a caller parks until another poll of its fds may find an event.

The fds are registered in a temporary set, an epoll or a kqueue. The caller parks until the set's own fd is readable.
Registration is edge-triggered, so an unrequested event (such as POLLHUP) wakes the caller only once. The set determines
only *when* to poll again. The standard call in ``select.py`` determines the ready fds and the format of the result. A
single fd is registered with the scheduler's own poller instead (``WatcherSet``), which takes 2 system calls instead of
6.

Before one of the fds is closed, the set is marked (``fd_closing``), so the waiter polls once more and gets EBADF or
POLLNVAL.
"""

from __future__ import annotations

import select as standard
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .._kernel import originals
from .._kernel.context_manager import contextmanager
from .._kernel.run.edge_pollers import EdgeTriggered
from .._kernel.run.fd_watch import READ, WRITE, FdWatcher
from .._kernel.run.poller import Poller
from .._kernel.run.scheduler import Scheduler, sleep
from .._kernel.wait.waiter import Waiter
from .close_hooks import add_close_hook, remove_close_hook

T = TypeVar("T", bound=Iterable[object])

POLLIN, POLLPRI, POLLOUT = 1, 2, 4  # the values of poll(2) on all platforms
CLOSING_SECONDS = 0.001
"""Seconds to wait after another thread has announced a close, so that the other thread can close the fd."""


def wait_for(call: str, me: Waiter, poll: Callable[[], T], events_by_fd: dict[int, int], limit: float | None) -> T:
    """Park until ``poll()`` finds an event, or ``limit`` seconds have passed. Returns: the last result of ``poll()``.

    ``events_by_fd``: the events to wait for, as in ``select.poll``, by fd. Parks: ``CALL fd N, …``.
    """
    clock = me.scheduler.clock
    deadline = None if limit is None else clock() + limit
    while True:
        with watch_all(f"{call} fd {', '.join(map(str, events_by_fd))}"[:60], me.scheduler, events_by_fd) as fd_set:
            found = poll()
            while not any(found) and not fd_set.fd_closing:
                left = None if deadline is None else deadline - clock()
                if left is not None and left <= 0:
                    return found
                fd_set.wait(me, left)
                found = poll()
        if any(found):
            return found
        # A close was announced, but had not happened at the last poll. Give the closing thread time, then poll again.
        sleep(CLOSING_SECONDS)


@contextmanager
def watch_all(reason: str, scheduler: Scheduler, events_by_fd: dict[int, int]) -> Iterator[FdSet | WatcherSet]:
    """Watch several fds during a ``with`` block. At the end of the block, all registrations are undone."""
    fd_set = new_fd_set(reason, scheduler, len(events_by_fd))
    try:
        for fd, events in events_by_fd.items():
            # Add the hook first, so that a close between the two steps is noticed.
            add_close_hook(fd, fd_set.note_close, fd_set.note_close)
            try:
                fd_set.add(fd, events)
            except OSError:
                # EPERM: a regular file, which reports no readiness; poll() always finds it ready. EBADF: a closed fd,
                # which poll() reports in the caller's format.
                pass
        yield fd_set
    finally:
        for fd in events_by_fd:
            remove_close_hook(fd, fd_set.note_close)
        fd_set.close()


class FdSet:
    """Base class of the sets in an epoll or kqueue. A set is edge-triggered, and its own fd reports all events."""

    def __init__(self, reason: str, watcher: FdWatcher) -> None:
        self.watcher = watcher
        watcher.read_reason = reason

    def add(self, fd: int, events: int) -> None:
        """Watch an fd for events of ``select.poll``. Raises: OSError."""
        raise NotImplementedError

    def consume_events(self) -> None:
        """Remove the reported events, so that only later events make the fd of the epoll or kqueue readable again."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the set's own fd. The watched fds stay open."""
        raise NotImplementedError

    @property
    def fd_closing(self) -> bool:
        """Whether one of the watched fds is about to be closed."""
        return self.watcher.closed

    def note_close(self) -> None:
        """Wake the waiter for one more poll, because one of the fds is about to be closed. From: any thread."""
        self.watcher.close()

    def wait(self, me: Waiter, timeout: float | None) -> None:
        """Park until the set has an event, one of its fds is about to be closed, or ``timeout`` seconds have passed."""
        try:
            self.watcher.wait_readable(me, timeout)
        except OSError:
            if not self.fd_closing:
                raise
        self.consume_events()


class EpollSet(FdSet):
    """The set on Linux, an epoll."""

    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.epoll = originals.epoll()
        super().__init__(reason, FdWatcher(scheduler, self.epoll.fileno()))

    def add(self, fd: int, events: int) -> None:
        # The bits of select.poll have the same values in epoll.
        self.epoll.register(fd, events | standard.EPOLLET)

    def consume_events(self) -> None:
        self.epoll.poll(0)

    def close(self) -> None:
        self.watcher.close()
        self.epoll.close()


class KqueueSet(FdSet):
    """The set on macOS and the BSDs, a kqueue."""

    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.select: Any = standard
        self.kqueue = originals.kqueue()
        super().__init__(reason, FdWatcher(scheduler, self.kqueue.fileno()))

    def add(self, fd: int, events: int) -> None:
        flags = self.select.KQ_EV_ADD | self.select.KQ_EV_CLEAR
        if events != POLLOUT:  # kqueue reports urgent data and end of file through the read filter
            self.kqueue.control([self.select.kevent(fd, self.select.KQ_FILTER_READ, flags)], 0, 0)
        if events & POLLOUT:
            self.kqueue.control([self.select.kevent(fd, self.select.KQ_FILTER_WRITE, flags)], 0, 0)

    def consume_events(self) -> None:
        self.kqueue.control(None, 1024, 0)

    def close(self) -> None:
        self.watcher.close()
        self.kqueue.close()


class WatcherSet:
    """Fds that are registered with the scheduler's own poller.

    This class serves a single fd if the poller is edge-triggered, and any fds if the platform has no epoll and no
    kqueue. With the portable poller, events are level-triggered, and urgent data is not reported. This object is the
    wait target of the parked caller.
    """

    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.reason = reason
        self.scheduler = scheduler
        self.poller = scheduler.poller
        self.watched: list[tuple[FdWatcher, int]] = []
        self.fd_closing = False
        # The waiter of the current wait, and its ticket, which identifies the park.
        self.parked: tuple[Waiter, list[Any]] | None = None

    def add(self, fd: int, events: int) -> None:
        """Watch an fd for events of ``select.poll``. Raises: OSError."""
        # An unrequested edge is harmless, so reading is also watched to get hang-ups and urgent data.
        wants_read = events != POLLOUT if is_edge_triggered(self.poller) else events & ~(POLLOUT | POLLPRI)
        directions = (READ if wants_read else 0) | (WRITE if events & POLLOUT else 0)
        watcher = FdWatcher(self.scheduler, fd)
        if directions:
            self.poller.register(watcher, directions)
            self.watched.append((watcher, directions))

    def note_close(self) -> None:
        """Wake the waiter for one more poll, because one of the fds is about to be closed. From: any thread."""
        self.fd_closing = True
        parked = self.parked
        if parked is not None:
            # Wake the waiter by its ticket, because the waiter may already wait for something else.
            waiter, ticket = parked
            waiter.wake_from(ticket)

    def wait(self, me: Waiter, timeout: float | None) -> None:
        """Park until an fd has an event or is about to be closed, or ``timeout`` seconds have passed."""
        for watcher, directions in self.watched:
            # Register only new directions, because each registration reports the present events again.
            if watcher.interest & directions != directions:
                self.poller.register(watcher, directions)
        me.prepare_park(self.reason, self)
        self.parked = me, me.parked
        for watcher, directions in self.watched:
            # The waiter queues up at several watchers. The first ready watcher wakes the waiter, and ``_remove``
            # removes the waiter from the other watchers.
            if directions & READ:
                watcher.readers[me] = None
            if directions & WRITE:
                watcher.writers[me] = None
        # Check again: a close announced before ``parked`` was set has woken no waiter.
        if self.fd_closing:
            me.wake_parked()
        try:
            me.park_within(timeout)
        finally:
            self._remove(me)

    def _remove(self, waiter: Waiter) -> None:
        """Remove the waiter from all watchers that have not woken the waiter."""
        self.parked = None
        for watcher, _ in self.watched:
            watcher.take_off(waiter)

    def close(self) -> None:
        """Remove all fds from the poller."""
        for watcher, _ in self.watched:
            watcher.close()


def new_fd_set(reason: str, scheduler: Scheduler, count: int) -> FdSet | WatcherSet:
    """Return an empty set for ``count`` fds, of the best kind on this platform."""
    if count == 1 and is_edge_triggered(scheduler.poller):
        return WatcherSet(reason, scheduler)
    if originals.epoll is not None:
        return EpollSet(reason, scheduler)
    if originals.kqueue is not None:
        return KqueueSet(reason, scheduler)
    return WatcherSet(reason, scheduler)


def is_edge_triggered(poller: Poller) -> bool:
    return isinstance(poller, EdgeTriggered)
