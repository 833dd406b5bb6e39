"""The portable poller, which waits for file descriptors with ``IOLoop.add_handler``.

The loop's handlers are level-triggered, so an fd is registered only while a waiter is parked on it.
"""

from __future__ import annotations

from tornado.ioloop import IOLoop

from .. import originals
from ..platform.system import system
from .fd_watch import READ, WRITE, FdWatcher, closed_error
from .poller import Poller


class IOLoopPoller(Poller):
    """Poller that adds a handler to the IOLoop for each fd.

    The loop watches a duplicate of the fd (``dup``), which the poller owns. So any thread may close the original fd at
    any time, and two watchers of one fd do not conflict. A duplicate is removed from the loop, in the loop's thread,
    before it is closed: with uvloop, a closed fd that is still registered can abort the process.
    """

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.duplicate_of: dict[FdWatcher, int] = {}
        # All open duplicates. Some are no longer watched, and stay open until the loop calls close_duplicate().
        self.open_duplicates: set[int] = set()
        self.ident = originals.get_ident()

    def register(self, watcher: FdWatcher, direction: int) -> None:
        if watcher.closed:
            raise closed_error()
        interest = watcher.interest | direction
        duplicate = self.duplicate_of.get(watcher)
        if duplicate is not None:
            self.ioloop.update_handler(duplicate, events_of(interest))
        else:
            duplicate = system.duplicate(watcher.fd)
            self.open_duplicates.add(duplicate)
            try:
                self.ioloop.add_handler(duplicate, self.handle, events_of(interest))
            except BaseException:
                # The IOLoop has stored the fd, although the fd could not be watched.
                self.close_duplicate(duplicate)
                raise
            self.watchers[duplicate], self.duplicate_of[watcher] = watcher, duplicate
        watcher.set_interest(interest)
        if watcher.closed:
            self.unregister(watcher)

    def unregister(self, watcher: FdWatcher) -> None:
        watcher.set_interest(0)
        duplicate = self.duplicate_of.pop(watcher, None)
        if duplicate is None:
            return
        del self.watchers[duplicate]
        if originals.get_ident() == self.ident:
            self.close_duplicate(duplicate)
        else:
            self.ioloop.add_callback(self.close_duplicate, duplicate)

    last_waiter_left = unregister

    def is_watching(self, fd: int) -> bool:
        return any(watcher.fd == fd for watcher in list(self.duplicate_of))

    def forget(self, fd: int) -> None:
        for watcher in [each for each in self.duplicate_of if each.fd == fd]:
            self.unregister(watcher)
            watcher.ready(READ | WRITE)

    def close_duplicate(self, duplicate: int) -> None:
        """Remove a duplicate from the loop and close it. No-op the second time. From: the loop's thread."""
        if duplicate in self.open_duplicates:
            self.open_duplicates.remove(duplicate)
            self.ioloop.remove_handler(duplicate)
            system.close_duplicate(duplicate)

    def handle(self, duplicate: int, events: int) -> None:
        """Pass an event of the loop to the watcher. The loop calls this method between laps: so a wake starts a lap."""
        self.events += 1
        watcher = self.watchers.get(duplicate)
        if watcher is None:
            return
        if events & IOLoop.ERROR:
            events |= IOLoop.READ | IOLoop.WRITE
        watcher.ready((READ if events & IOLoop.READ else 0) | (WRITE if events & IOLoop.WRITE else 0))
        wanted = (READ if watcher.readers else 0) | (WRITE if watcher.writers else 0)
        if wanted:
            self.ioloop.update_handler(duplicate, events_of(wanted))
            watcher.set_interest(wanted)
        # Unregister a watcher that another thread has just closed, or that has no waiter any more.
        if watcher.closed or not wanted:
            self.unregister(watcher)

    def poll(self) -> None:
        """Drop the requested rechecks. They are not needed: the IOLoop calls ``handle`` as long as an fd is ready."""
        self.to_recheck.clear()

    def detach(self) -> None:
        for watcher in list(self.duplicate_of):
            self.unregister(watcher)
        for duplicate in list(self.open_duplicates):
            self.close_duplicate(duplicate)

    def abandon(self) -> None:
        # In a forked child, close only the child's copies of the duplicates.
        for duplicate in self.open_duplicates:
            system.close_duplicate(duplicate)
        super().abandon()
        self.duplicate_of.clear()
        self.open_duplicates.clear()


def events_of(interest: int) -> int:
    """Return the IOLoop's event mask for these directions."""
    return (IOLoop.READ if interest & READ else 0) | (IOLoop.WRITE if interest & WRITE else 0)
