"""The poller for any platform, by ``IOLoop.add_handler``.

Because the loop's handlers are level-triggered, an fd is registered only while a waiter is parked on it.
"""

from __future__ import annotations

from tornado.ioloop import IOLoop

from .. import originals
from ..platform.system import system
from .fd_watch import READ, WRITE, FdWatcher, closed_error
from .poller import Poller


class IOLoopPoller(Poller):
    """The IOLoop's own handlers, for one fd each.

    The loop watches a duplicate (``dup``) that the poller owns. So any thread may close the original fd at any time,
    and two watchers of one fd do not conflict. uvloop demands that the duplicate leaves the loop, in the loop's thread,
    before it is closed: a registered closed fd can abort the process.
    """

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.duplicate_of: dict[FdWatcher, int] = {}
        # Our open duplicates; some of them only until the loop runs their close_duplicate().
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
                # The IOLoop also keeps fds that could not be watched.
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

    def close_duplicate(self, duplicate: int) -> None:
        """Remove a duplicate from the loop and close it; no-op the second time. From: the loop's thread."""
        if duplicate in self.open_duplicates:
            self.open_duplicates.remove(duplicate)
            self.ioloop.remove_handler(duplicate)
            system.close_duplicate(duplicate)

    def handle(self, duplicate: int, events: int) -> None:
        """Pass an event of the loop on. The loop runs, so the scheduler is asleep: a wake starts a lap."""
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
        # Another thread has just closed it, or no waiter parked again: it must not count as watched.
        if watcher.closed or not wanted:
            self.unregister(watcher)

    def poll(self) -> None:
        """Do nothing: the IOLoop calls ``handle`` as long as an fd is ready, so that no recheck is needed."""
        self.to_recheck.clear()

    def detach(self) -> None:
        for watcher in list(self.duplicate_of):
            self.unregister(watcher)
        for duplicate in list(self.open_duplicates):
            self.close_duplicate(duplicate)

    def abandon(self) -> None:
        # The child's copies.
        for duplicate in self.open_duplicates:
            system.close_duplicate(duplicate)
        super().abandon()
        self.duplicate_of.clear()
        self.open_duplicates.clear()


def events_of(interest: int) -> int:
    """Return the IOLoop's events for these directions."""
    return (IOLoop.READ if interest & READ else 0) | (IOLoop.WRITE if interest & WRITE else 0)
