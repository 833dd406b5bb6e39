"""Pollers: each scheduler has a poller, which detects ready file descriptors and wakes their waiters.

This module has the common part. A poller for Linux, macOS or BSD (``edge_pollers``) is a single handler of the IOLoop;
``ioloop_poller`` has the portable poller. A poller belongs to the OS thread of its scheduler: only ``unregister`` may
be called from any thread. Not here: sockets and timeouts.
"""

from __future__ import annotations

from tornado.ioloop import IOLoop

from .fd_watch import FdWatcher

# The maximal number of watchers that are checked one by one before each sleep of the loop. Checking 9,000 watchers
# doubled the CPU time of a round trip from 21 µs to 42 µs.
MAX_CHEAP_SCAN = 64


class Poller:
    """Common part of all pollers. ``watchers``: the registered watchers by the number of the fd that is polled."""

    __slots__ = ("__dict__", "__weakref__", "events", "ioloop", "last_waited_on", "to_recheck", "watchers")

    def __init__(self, ioloop: IOLoop) -> None:
        self.ioloop: IOLoop = ioloop
        self.watchers: dict[int, FdWatcher] = {}
        # Watchers whose last read was short. A short read does not prove that their fds are empty: the poller must
        # check.
        self.to_recheck: list[FdWatcher] = []
        # The number of events so far, for statistics.
        self.events: int = 0
        # The watcher at which has_waiters() last found a waiter. has_waiters() checks this watcher first, because it
        # usually has a waiter again.
        self.last_waited_on: FdWatcher | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.watchers)} fds>"

    def has_waiters(self) -> bool:
        """Return whether a waiter is parked on any fd. This takes O(n) if there is no waiter; see
        ``scan_is_costly``.
        """
        if self.waited_on_again():
            return True
        for watcher in self.all_watchers():
            if watcher.readers or watcher.writers:
                self.last_waited_on = watcher
                return True
        return False

    def all_watchers(self) -> list[FdWatcher]:
        """Return the registered watchers. An fd that several objects share has several watchers."""
        return list(self.watchers.values())

    def waited_on_again(self) -> bool:
        """Return whether the watcher that ``has_waiters`` found last has a waiter now. Takes O(1)."""
        watcher = self.last_waited_on
        return watcher is not None and bool(watcher.readers or watcher.writers)

    def scan_is_costly(self) -> bool:
        """Return whether a call of ``has_waiters`` before each sleep would cost too much, due to too many watchers."""
        return len(self.watchers) > MAX_CHEAP_SCAN and not self.waited_on_again()

    def register(self, watcher: FdWatcher, direction: int) -> None:
        """Start watching an fd in a direction. Raises: OSError (EBADF) if the watcher is closed."""
        raise NotImplementedError

    def unregister(self, watcher: FdWatcher) -> None:
        """Stop watching an fd. From: any thread."""
        raise NotImplementedError

    def is_watching(self, fd: int) -> bool:
        """Return whether a watcher of this fd is registered. From: any thread."""
        raise NotImplementedError

    def forget(self, fd: int) -> None:
        """Stop watching an fd whose number is about to refer to another file, and wake the waiters for another try."""
        raise NotImplementedError

    def last_waiter_left(self, watcher: FdWatcher) -> None:
        """Notify the poller that no waiter is parked on an fd any more."""

    def poll(self) -> None:
        """Wake the waiters of all fds that are ready now, without blocking."""
        raise NotImplementedError

    def detach(self) -> None:
        """Remove the poller from the IOLoop and close it. Watchers may still be unregistered after the close."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close the poller in a forked child, without effect on the parent's fds and dhagas."""
        for watcher in self.all_watchers():
            watcher.readers.clear()
            watcher.writers.clear()
        self.watchers.clear()
        self.last_waited_on = None
