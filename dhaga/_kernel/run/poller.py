"""Readiness of file descriptors: one poller per scheduler, hung on the IOLoop as a single handler.

``Epoll`` and ``Kqueue`` register an fd once and edge-triggered; its ``FdWatcher`` remembers the edge. So one IOLoop
event serves a whole batch of sockets, and a wait needs neither an ``epoll_ctl`` nor an asyncio ``Handle``.
``IOLoopPoller`` uses only ``IOLoop.add_handler``, and registers an fd only while a waiter is parked on it, as those
handlers are level-triggered. ``DHAGA_POLLER=ioloop`` chooses it anywhere.
An fd is unknown, registered (``watchers``) or shared (``fd_sharers``): two objects may be made over one fd
(``socket(fileno=…)``), and the operating system takes only one registration for it. An fd may be closed behind our back
and its number reused; ``register`` finds that out when the system refuses, or accepts, the second registration.
``to_recheck`` holds watchers whose last read was short without proof that the fd is empty. When the poller is idle it
modifies their registration, which makes epoll report their state as a new edge.
A poller belongs to the OS thread of its scheduler; only ``unregister`` may be called from any thread. Not here: sockets
and timeouts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tornado.ioloop import IOLoop

from .. import originals
from ..fast.compiled import compiled
from .fd_watch import READ, WRITE, FdWatcher, closed_error, wake_all

select = originals.select_module

# Events taken at once; with 5,000 busy connections larger batches gained nothing.
BATCH = 1024

# Polls after which watchers are rechecked even if the poller is never idle: two ``epoll_ctl`` for 30 round trips.
POLLS_BEFORE_RECHECK = 64

# At most this many watchers are checked one by one before each sleep of the loop. Checking 9,000 doubled the CPU time
# of a round trip, 21 -> 42 µs.
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
        for watcher in list(self.watchers.values()):
            if watcher.readers or watcher.writers:
                self.last_waited_on = watcher
                return True
        return False

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
        for watcher in self.watchers.values():
            watcher.readers.clear()
            watcher.writers.clear()
        self.watchers.clear()
        self.last_waited_on = None


class EdgeTriggered(Poller):
    """A set of fds in the operating system that reports edges.

    ``fd_sharers``: further watchers of an fd, where two objects (``socket(fileno=…)``) are made over the same one.
    """

    __slots__ = ("fd_sharers",)

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.fd_sharers: dict[int, list[FdWatcher]] = {}

    def register(self, watcher: FdWatcher, direction: int) -> None:
        if watcher.closed:
            raise closed_error()
        former = self.watchers.setdefault(watcher.fd, watcher)
        if former is watcher:
            self.watch(watcher, watcher.interest | direction)
        elif self.watch(former, former.interest | direction, watcher):
            fd_sharers = self.fd_sharers.setdefault(watcher.fd, [])
            if watcher not in fd_sharers:
                fd_sharers.append(watcher)
                # Perhaps only the first watcher has got its edge.
                watcher.readable = True
            former.set_interest(former.interest | direction)
        else:
            self.watchers[watcher.fd] = watcher
            # The former watcher's fd was closed without notice, and its number reused.
            former.set_interest(0)
            former.close()
        watcher.set_interest(watcher.interest | direction)
        # Another thread has just closed it, and may have looked for watchers before this registration.
        if watcher.closed:
            self.unregister(watcher)

    def unregister(self, watcher: FdWatcher) -> None:
        interest = watcher.interest
        watcher.set_interest(0)
        if not interest:
            return
        fd = watcher.fd
        # Another thread may unregister it at the same time: who removes it does the rest.
        if self.watchers.get(fd) is watcher and self.watchers.pop(fd, None) is not None:
            try:
                self.unwatch(fd, interest)
            # ENOENT, EBADF: the fd was closed without notice. ValueError: this poller is closed itself.
            except (OSError, ValueError):
                pass
            # The waiters of the sharers try their calls, and register anew.
            for sharer in self.fd_sharers.pop(fd, ()):
                sharer.set_interest(0)
                sharer.ready(READ | WRITE)
        elif watcher in self.fd_sharers.get(fd, ()):
            with suppress(KeyError, ValueError):
                self.fd_sharers[fd].remove(watcher)
                # If the fd is closed now, the remaining waiters notice when they retry.
                self.watchers[fd].ready(READ | WRITE)

    def watch(self, watcher: FdWatcher, interest: int, newcomer: FdWatcher | None = None) -> bool:
        """Watch the fd of ``watcher`` for ``interest``.

        ``newcomer``: a second watcher of the same number. Returns: False if its fd refers to another file by now.
        """
        raise NotImplementedError

    def unwatch(self, fd: int, interest: int) -> None:
        """Remove the fd from the system's set. Raises: OSError."""
        raise NotImplementedError

    def dispatch(self, watcher: FdWatcher, directions: int, unusual: bool) -> None:
        """Pass an event on to a watcher and to the sharers of its fd."""
        for each in (watcher, *self.fd_sharers.get(watcher.fd, ())):
            if unusual:
                # After a hang-up, an error or urgent data no further edge comes: from now on each read tries the call.
                each.short_read_means_empty = False
            each.ready(directions)

    def abandon(self) -> None:
        super().abandon()
        self.fd_sharers.clear()


class Epoll(EdgeTriggered):
    """Linux: an epoll of our own. Writing is watched only from the first time a waiter parks for it.

    A Unix socket reports itself writable each time its peer reads; watching both from the start costs it 30 %.
    """

    __slots__ = ("epoll", "polls_until_recheck")

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        self.epoll = originals.epoll()
        self.polls_until_recheck = POLLS_BEFORE_RECHECK
        ioloop.add_handler(self.epoll.fileno(), on_ready, IOLoop.READ)

    def watch(self, watcher: FdWatcher, interest: int, newcomer: FdWatcher | None = None) -> bool:
        mask = EDGES | (EPOLLIN if interest & READ else 0) | (EPOLLOUT if interest & WRITE else 0)
        if watcher.interest and newcomer is None:
            self.epoll.modify(watcher.fd, mask)
            return True
        try:
            self.epoll.register(watcher.fd, mask)
        # EEXIST: the number still refers to the file that was registered under it.
        except FileExistsError:
            self.epoll.modify(watcher.fd, mask)
            return True
        except OSError:
            if newcomer is None:
                del self.watchers[watcher.fd]
            raise
        return newcomer is None

    def unwatch(self, fd: int, interest: int) -> None:
        self.epoll.unregister(fd)

    @compiled  # C: wakes a single reader itself; dispatch() and ready() do the rest
    def poll(self) -> None:
        watchers, fd_sharers = self.watchers, self.fd_sharers or None
        found = self.epoll.poll(0, BATCH)
        self.events += len(found)
        for fd, events in found:
            try:
                watcher = watchers[fd]
            except KeyError:
                continue
            alone = fd_sharers is None and type(watcher) is FdWatcher
            if alone and (events == EPOLLIN or (events == INOUT and not watcher.writers)):
                # dispatch(), ready() and wake_parked(), written out: 8 % of an echo. Once a waiter has parked to write,
                # each read edge reports both directions (INOUT).
                watcher.readable = True
                readers = watcher.readers
                if len(readers) == 1:
                    try:
                        # clear() would give the dictionary's table back: 100 ns.
                        waiter = readers.popitem()[0]
                        del waiter.parked[0]
                    except (KeyError, IndexError):  # another thread is closing the fd, or the waiter has left
                        continue
                    # No look at asleep: the scheduler that polls is awake.
                    waiter.wake_queue.append(waiter)
                elif readers:
                    wake_all(readers)
            elif events & UNUSUAL:
                self.dispatch(watcher, READ | WRITE, unusual=True)
            else:
                directions = (READ if events & EPOLLIN else 0) | (WRITE if events & EPOLLOUT else 0)
                self.dispatch(watcher, directions, unusual=False)
        if self.to_recheck:
            self.polls_until_recheck -= 1
            if not found or not self.polls_until_recheck:
                self.recheck()

    def recheck(self) -> None:
        """Ask for the state of the fds in ``to_recheck``: modifying a registration reports it anew, as an event."""
        for fd in {watcher.fd for watcher in self.to_recheck if watcher.watched and not watcher.readable}:
            # KeyError: another thread has just closed it. OSError: it was closed behind our back.
            with suppress(KeyError, OSError):
                watcher = self.watchers[fd]
                self.watch(watcher, watcher.interest)
        self.to_recheck.clear()
        self.polls_until_recheck = POLLS_BEFORE_RECHECK

    def detach(self) -> None:
        if not self.epoll.closed:
            self.ioloop.remove_handler(self.epoll.fileno())
            self.epoll.close()

    def abandon(self) -> None:
        super().abandon()
        # The child's copy of the fd. The parent shares this epoll set: unregistering here would also unregister there.
        self.epoll.close()


# Names that exist on Linux only; 0 elsewhere, where no code that uses them runs.
EPOLLIN = EPOLLOUT = INOUT = EDGES = UNUSUAL = 0
if originals.epoll:
    EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
    INOUT = EPOLLIN | EPOLLOUT
    UNUSUAL = select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP | select.EPOLLPRI
    EDGES = select.EPOLLET | select.EPOLLRDHUP | select.EPOLLPRI


class Kqueue(EdgeTriggered):
    """macOS and BSD: a kqueue of our own, with EV_CLEAR for edges."""

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        # Through Any: on other platforms type checkers do not know select's kqueue names.
        self.kq: Any = select
        self.kqueue = originals.kqueue()
        self.filters = {READ: self.kq.KQ_FILTER_READ, WRITE: self.kq.KQ_FILTER_WRITE}
        ioloop.add_handler(self.kqueue.fileno(), on_ready, IOLoop.READ)

    def change(self, fd: int, directions: int, flags: int) -> None:
        """Apply flags to the filters of these directions."""
        for direction, filter in self.filters.items():
            if directions & direction:
                self.kqueue.control([self.kq.kevent(fd, filter, flags)], 0, 0)

    def watch(self, watcher: FdWatcher, interest: int, newcomer: FdWatcher | None = None) -> bool:
        try:
            self.change(watcher.fd, interest, self.kq.KQ_EV_ADD | self.kq.KQ_EV_CLEAR)
        except OSError:
            if newcomer is None and not watcher.interest:
                del self.watchers[watcher.fd]
            raise
        # A kqueue accepts a registration twice silently, so that a reused number is not noticed: a sharer is always
        # right.
        return True

    def unwatch(self, fd: int, interest: int) -> None:
        self.change(fd, interest, self.kq.KQ_EV_DELETE)

    def poll(self) -> None:
        for event in self.kqueue.control(None, BATCH, 0):
            self.events += 1
            watcher = self.watchers.get(event.ident)
            if watcher is None:
                continue
            if event.flags & (self.kq.KQ_EV_EOF | self.kq.KQ_EV_ERROR):
                self.dispatch(watcher, READ | WRITE, unusual=True)
            else:
                self.dispatch(watcher, READ if event.filter == self.kq.KQ_FILTER_READ else WRITE, unusual=False)

    def detach(self) -> None:
        if not self.kqueue.closed:
            self.ioloop.remove_handler(self.kqueue.fileno())
            self.kqueue.close()

    def abandon(self) -> None:
        super().abandon()
        try:
            self.kqueue.close()
        # A kqueue is not inherited by fork: the number is closed already.
        except OSError:
            pass


class IOLoopPoller(Poller):
    """For any platform: the IOLoop's own handlers. They are level-triggered, so an fd without waiters is removed again.

    The loop watches a duplicate (``dup``) that the poller owns. So any thread may close the original fd at any time,
    and two watchers of one fd do not conflict. The duplicate is removed in the loop's thread before it is closed, as
    uvloop demands (a registered closed fd can abort the process).
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
            duplicate = os.dup(watcher.fd)
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
            originals.close(duplicate)

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
            originals.close(duplicate)
        super().abandon()
        self.duplicate_of.clear()
        self.open_duplicates.clear()


def events_of(interest: int) -> int:
    """Return the IOLoop's events for these directions."""
    return (IOLoop.READ if interest & READ else 0) | (IOLoop.WRITE if interest & WRITE else 0)


def new_poller(ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> Poller:
    """Return the best poller of this platform, or the one that ``DHAGA_POLLER`` names (``ioloop``)."""
    chosen = os.environ.get("DHAGA_POLLER", "")
    if chosen not in ("", "ioloop"):
        raise ValueError(f"DHAGA_POLLER={chosen!r}: it takes only 'ioloop'; unset it for the platform's own poller")
    if originals.epoll and not chosen:
        return Epoll(ioloop, on_ready)
    if originals.kqueue and not chosen:
        return Kqueue(ioloop, on_ready)
    return IOLoopPoller(ioloop)
