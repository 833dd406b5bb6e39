"""Pollers that register each fd only once, edge-triggered: ``Epoll`` on Linux, ``Kqueue`` on macOS and BSD.

The IOLoop watches only the epoll or kqueue of the poller, so one IOLoop event serves a whole batch of sockets. An edge
(an fd becomes ready) is reported only once, and is stored in the fd's ``FdWatcher``. So a wait needs neither an
``epoll_ctl`` nor an asyncio ``Handle``.
An fd is unknown, registered (``watchers``) or shared (``fd_sharers``). A shared fd is used by several objects
(``socket(fileno=…)``), but the operating system accepts only one registration per fd. A program may close an fd without
notice, and the fd's number may be reused: ``register`` detects this from the system's answer to the second
registration. ``to_recheck`` holds watchers whose last read was short, but did not prove that the fd is empty. An idle
poller renews the registrations of these watchers, so that the operating system reports their state as a new edge.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

from tornado.ioloop import IOLoop

from .. import originals
from ..fast.compiled import compiled
from ..own_fds import own_fds
from .fd_watch import READ, WRITE, FdWatcher, closed_error, wake_all
from .loop import has_event
from .poller import Poller

select = originals.select_module

# The maximal number of events that one poll returns. With 5,000 busy connections, larger batches gained nothing.
BATCH = 1024

# The number of polls after which watchers are rechecked even if the poller is never idle. A round trip takes about two
# polls, so a recheck costs two system calls per 30 round trips.
POLLS_BEFORE_RECHECK = 64


class EdgeTriggered(Poller):
    """Common part of the pollers that use an edge-triggered set of fds in the operating system.

    ``fd_sharers``: for each fd that several objects use (``socket(fileno=…)``), all of its watchers but the first.
    """

    __slots__ = ("fd_sharers", "polls_until_recheck")

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.fd_sharers: dict[int, list[FdWatcher]] = {}
        self.polls_until_recheck = POLLS_BEFORE_RECHECK

    def all_watchers(self) -> list[FdWatcher]:
        return [*super().all_watchers(), *chain.from_iterable(list(self.fd_sharers.values()))]

    def register(self, watcher: FdWatcher, direction: int) -> None:
        if watcher.closed:
            raise closed_error()
        former = self.watchers.setdefault(watcher.fd, watcher)
        if former is watcher:
            try:
                self.watch(watcher, watcher.interest | direction)
            except FileNotFoundError:
                # The fd was closed without notice, and a new file has its number. The watcher knows only this number,
                # and so waits for the new file.
                watcher.set_interest(0)
                self.watch(watcher, READ | direction)
        elif self.watch(former, former.interest | direction, watcher):
            fd_sharers = self.fd_sharers.setdefault(watcher.fd, [])
            if watcher not in fd_sharers:
                fd_sharers.append(watcher)
                # An edge may have come before this registration, and only the first watcher has stored it.
                watcher.readable = True
            former.set_interest(former.interest | direction)
        else:
            self.watchers[watcher.fd] = watcher
            # The former watcher's fd was closed without notice, and its number was reused.
            former.set_interest(0)
            former.close()
        watcher.set_interest(watcher.interest | direction)
        # If another thread has just closed the watcher, the thread's call of unregister() may have preceded this
        # registration.
        if watcher.closed:
            self.unregister(watcher)

    def unregister(self, watcher: FdWatcher) -> None:
        interest = watcher.interest
        watcher.set_interest(0)
        if not interest:
            return
        fd = watcher.fd
        # Another thread may unregister the watcher at the same time. Only the thread that removes the entry continues.
        if self.watchers.get(fd) is watcher and self.watchers.pop(fd, None) is not None:
            self.end_registration(fd, interest)
        elif watcher in self.fd_sharers.get(fd, ()):
            with suppress(KeyError, ValueError):
                self.fd_sharers[fd].remove(watcher)
                # The remaining waiters are woken: if the fd is closed now, their retries find this out.
                self.watchers[fd].ready(READ | WRITE)

    def end_registration(self, fd: int, interest: int) -> None:
        """Remove an fd from the system's set, after its first watcher has been removed."""
        try:
            self.unwatch(fd, interest)
        # ENOENT, EBADF: the fd was closed without notice. ValueError: this poller itself is closed.
        except (OSError, ValueError):
            pass
        # The sharers' waiters are woken: they retry their system calls, and register again.
        for sharer in self.fd_sharers.pop(fd, ()):
            sharer.set_interest(0)
            sharer.ready(READ | WRITE)

    def is_watching(self, fd: int) -> bool:
        return fd in self.watchers

    def forget(self, fd: int) -> None:
        watcher = self.watchers.pop(fd, None)
        if watcher is None:
            return
        for each in (watcher, *self.fd_sharers.get(fd, ())):
            each.short_read_means_empty = False  # the new file may be of another kind
        interest = watcher.interest
        watcher.set_interest(0)
        self.end_registration(fd, interest)
        watcher.ready(READ | WRITE)

    def watch(self, watcher: FdWatcher, interest: int, newcomer: FdWatcher | None = None) -> bool:
        """Watch the fd of ``watcher`` in the directions ``interest``.

        ``newcomer``: a second watcher with the same fd number. Returns: False if the number refers to another file now.
        """
        raise NotImplementedError

    def unwatch(self, fd: int, interest: int) -> None:
        """Remove the fd from the operating system's set of watched fds. Raises: OSError."""
        raise NotImplementedError

    def dispatch(self, watcher: FdWatcher, directions: int, unusual: bool) -> None:
        """Pass an event to a watcher and to the other watchers of its fd."""
        for each in (watcher, *self.fd_sharers.get(watcher.fd, ())):
            if unusual:
                # After a hang-up, an error or urgent data, no further edge comes: each later read must try the call.
                each.short_read_means_empty = False
            each.ready(directions)

    def recheck(self) -> None:
        """Renew the registrations of the fds in ``to_recheck``: the system then reports each fd's state as an event."""
        for fd in {watcher.fd for watcher in self.to_recheck if watcher.watched and not watcher.readable}:
            # KeyError: another thread has just closed the watcher. OSError: the fd was closed without notice.
            with suppress(KeyError, OSError):
                watcher = self.watchers[fd]
                self.watch(watcher, watcher.interest)
        self.to_recheck.clear()
        self.polls_until_recheck = POLLS_BEFORE_RECHECK

    def abandon(self) -> None:
        super().abandon()
        self.fd_sharers.clear()


class Epoll(EdgeTriggered):
    """Poller for Linux, with an epoll of our own. An fd is watched for writing only after a waiter has parked to write.

    A Unix socket becomes writable each time its peer reads. If such a socket were watched in both directions from the
    start, it would be 30 % slower.
    """

    __slots__ = ("epoll",)

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        self.epoll = originals.epoll()
        own_fds.add(self.epoll.fileno())
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

    @compiled  # in C, with the wake of a single reader; the methods dispatch() and ready() do the rest
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
                # The bodies of dispatch(), ready() and wake_parked() are repeated here: calls would cost 8 % of an
                # echo's time. INOUT: once a waiter has parked to write, each read edge reports both directions.
                watcher.readable = True
                readers = watcher.readers
                if len(readers) == 1:
                    try:
                        # clear() would also free the dictionary's table, which takes 100 ns.
                        waiter = readers.popitem()[0]
                        del waiter.parked[0]
                    except (KeyError, IndexError):  # another thread is closing the fd, or the waiter has left
                        continue
                    # The flag ``asleep`` is not checked: a scheduler that polls is awake.
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

    def detach(self) -> None:
        if not self.epoll.closed:
            own_fds.discard(self.epoll.fileno())
            self.ioloop.remove_handler(self.epoll.fileno())
            self.epoll.close()

    def abandon(self) -> None:
        super().abandon()
        # Close only the child's copy of the epoll fd. Unregistering an fd would also affect the parent's epoll.
        self.epoll.close()


# These constants exist only on Linux. Elsewhere they are 0, and no code that uses them runs.
EPOLLIN = EPOLLOUT = INOUT = EDGES = UNUSUAL = 0
if originals.epoll:
    EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
    INOUT = EPOLLIN | EPOLLOUT
    UNUSUAL = select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP | select.EPOLLPRI
    EDGES = select.EPOLLET | select.EPOLLRDHUP | select.EPOLLPRI


class Kqueue(EdgeTriggered):
    """Poller for macOS and BSD, with a kqueue of our own. The flag EV_CLEAR makes the kqueue report edges."""

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        # The type is Any, because on other platforms type checkers do not know the kqueue names of ``select``.
        self.kq: Any = select
        self.kqueue = originals.kqueue()
        own_fds.add(self.kqueue.fileno())
        self.filters = {READ: self.kq.KQ_FILTER_READ, WRITE: self.kq.KQ_FILTER_WRITE}
        ioloop.add_handler(self.kqueue.fileno(), on_ready, IOLoop.READ)

    def change(self, fd: int, directions: int, flags: int) -> None:
        """Apply flags to the filters of these directions. Raises: OSError; ENOENT if a filter is not registered."""
        changes = [
            self.kq.kevent(fd, filter, flags) for direction, filter in self.filters.items() if directions & direction
        ]
        if changes:
            self.kqueue.control(changes, 0, 0)

    def watch(self, watcher: FdWatcher, interest: int, newcomer: FdWatcher | None = None) -> bool:
        same = True
        try:
            # EV_ADD succeeds for any open fd. EV_ENABLE without EV_ADD fails if the registered file is no longer open
            # under this number, because closing an fd removes its registrations.
            self.change(watcher.fd, watcher.interest, self.kq.KQ_EV_ENABLE)
        # ENOENT: the fd was closed without notice, and its number was reused.
        except FileNotFoundError:
            if newcomer is None:
                raise
            same = False
        try:
            self.change(watcher.fd, interest, self.kq.KQ_EV_ADD | self.kq.KQ_EV_CLEAR)
        except OSError:
            if newcomer is None and not watcher.interest:
                del self.watchers[watcher.fd]
            raise
        return same

    def unwatch(self, fd: int, interest: int) -> None:
        self.change(fd, interest, self.kq.KQ_EV_DELETE)

    def poll(self) -> None:
        # control() releases the interpreter lock, and frequent releases delay other threads: see has_event().
        found = self.kqueue.control(None, BATCH, 0) if has_event(self.kqueue.fileno()) else []
        self.events += len(found)
        for event in found:
            watcher = self.watchers.get(event.ident)
            if watcher is None:
                continue
            if event.flags & (self.kq.KQ_EV_EOF | self.kq.KQ_EV_ERROR):
                self.dispatch(watcher, READ | WRITE, unusual=True)
            else:
                self.dispatch(watcher, READ if event.filter == self.kq.KQ_FILTER_READ else WRITE, unusual=False)
        if self.to_recheck:
            self.polls_until_recheck -= 1
            if not found or not self.polls_until_recheck:
                self.recheck()

    def detach(self) -> None:
        if not self.kqueue.closed:
            own_fds.discard(self.kqueue.fileno())
            self.ioloop.remove_handler(self.kqueue.fileno())
            self.kqueue.close()

    def abandon(self) -> None:
        super().abandon()
        try:
            self.kqueue.close()
        # A forked child does not inherit a kqueue: the fd is already closed.
        except OSError:
            pass
