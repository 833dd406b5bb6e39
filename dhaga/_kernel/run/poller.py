"""Readiness of file descriptors: one poller per scheduler, hung on the IOLoop as a single handler.

``edge_pollers`` has those of Linux, macOS and BSD, ``ioloop_poller`` the one for any platform. A poller belongs to the
OS thread of its scheduler; only ``unregister`` may be called from any thread. Not here: sockets and timeouts.
"""

from __future__ import annotations

from tornado.ioloop import IOLoop

from .fd_watch import FdWatcher

# The most watchers that are checked one by one before each sleep of the loop. Checking 9,000 of them doubled the CPU
# time of a round trip, from 21 to 42 µs.
MAX_CHEAP_SCAN = 64


class Poller:
    """State of all pollers: the watchers, by the fd number that is watched."""

    __slots__ = ("__dict__", "__weakref__", "events", "ioloop", "last_waited_on", "to_recheck", "watchers")

    def __init__(self, ioloop: IOLoop) -> None:
        self.ioloop: IOLoop = ioloop
        self.watchers: dict[int, FdWatcher] = {}
        # Marked empty by a short read, which proves nothing here: ask epoll again.
        self.to_recheck: list[FdWatcher] = []
        # So far, for the statistics.
        self.events: int = 0
        # The watcher that last had a waiter: it usually has one again.
        self.last_waited_on: FdWatcher | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.watchers)} fds>"

    def has_waiters(self) -> bool:
        """Return whether a waiter is parked on an fd. O(n) if none is; see ``scan_is_costly``."""
        if self.waited_on_again():
            return True
        for watcher in self.all_watchers():
            if watcher.readers or watcher.writers:
                self.last_waited_on = watcher
                return True
        return False

    def all_watchers(self) -> list[FdWatcher]:
        """Return the registered watchers, several for an fd that several objects share."""
        return list(self.watchers.values())

    def waited_on_again(self) -> bool:
        """Return whether the watcher found by the last ``has_waiters`` has a waiter; O(1)."""
        watcher = self.last_waited_on
        return watcher is not None and bool(watcher.readers or watcher.writers)

    def scan_is_costly(self) -> bool:
        """Return whether ``has_waiters`` would check too many watchers for a call before each sleep."""
        return len(self.watchers) > MAX_CHEAP_SCAN and not self.waited_on_again()

    def register(self, watcher: FdWatcher, direction: int) -> None:
        """Watch a direction of an fd from now on. Raises: OSError (EBADF) if the watcher is closed."""
        raise NotImplementedError

    def unregister(self, watcher: FdWatcher) -> None:
        """Stop watching an fd. From: any thread."""
        raise NotImplementedError

    def last_waiter_left(self, watcher: FdWatcher) -> None:
        """Note that an fd has no parked waiter left."""

    def poll(self) -> None:
        """Wake the waiters whose fds are ready by now; never blocks."""
        raise NotImplementedError

    def detach(self) -> None:
        """Leave the IOLoop and release everything. Watchers still registered see that it is closed."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Release everything in a forked child, without touching the parent's fds and dhagas."""
        for watcher in self.all_watchers():
            watcher.readers.clear()
            watcher.writers.clear()
        self.watchers.clear()
        self.last_waited_on = None
