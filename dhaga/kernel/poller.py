"""Readiness of file descriptors: one poller a scheduler, hung on the IOLoop as a single handler.

``Epoll`` and ``Kqueue`` register an fd once and edge-triggered; its channel says whether to try the system call or to
park. ``Portable`` does the same with ``IOLoop.add_handler`` alone, an fd being registered while somebody waits.
``DHAGA_POLLER=ioloop`` chooses it anywhere.

Not here: sockets and timeouts. A poller belongs to the OS thread of its scheduler; ``unregister`` alone is for any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tornado.ioloop import IOLoop

from . import originals
from .channel import READ, WRITE, Channel, closed_error

select = originals.select_module

BATCH = 1024
"""Events taken at once; with 5,000 busy connections larger batches gained nothing."""

TRUST = 64
"""Polls after which doubts are settled even if the poller is never idle: two ``epoll_ctl`` for 30 round trips."""


class Poller:
    """What all pollers have: the channels by the number under which they are watched."""

    def __init__(self, ioloop: IOLoop) -> None:
        self.ioloop = ioloop
        self.channels: dict[int, Channel] = {}
        self.doubts: list[Channel] = []  # read to their end, it seems; to be looked at again
        self.events = 0  # so far

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {len(self.channels)} fds>"

    def anybody_parked(self) -> bool:
        """Tell whether a dhaga waits for an fd."""
        return any(channel.readers or channel.writers for channel in list(self.channels.values()))

    def register(self, channel: Channel, direction: int) -> None:
        """Have a direction of a channel watched from now on. Raises: OSError (EBADF) if the channel is closed."""
        raise NotImplementedError

    def unregister(self, channel: Channel) -> None:
        """Have a channel watched no more. From: any thread."""
        raise NotImplementedError

    def relax(self, channel: Channel) -> None:
        """Take note that nobody is parked on a channel any more."""

    def poll(self) -> None:
        """Wake those whose fds are ready by now; never waits."""
        raise NotImplementedError

    def detach(self) -> None:
        """Leave the IOLoop and let go of everything; channels that still think they are registered find it closed."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Let go of everything in a forked child, without touching the parent's: neither its fds nor its dhagas."""
        for channel in self.channels.values():
            channel.readers.clear()
            channel.writers.clear()
        self.channels.clear()


class Edged(Poller):
    """A set of fds in the operating system that tells of edges.

    ``twins``: further channels of an fd, where two objects (``socket(fileno=…)``) are made over the same one.
    """

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.twins: dict[int, list[Channel]] = {}

    def register(self, channel: Channel, direction: int) -> None:
        if channel.closed:
            raise closed_error()
        former = self.channels.setdefault(channel.fd, channel)
        if former is channel:
            self.watch(channel, channel.interest | direction)
        elif self.watch(former, former.interest | direction, channel):
            twins = self.twins.setdefault(channel.fd, [])
            if channel not in twins:
                twins.append(channel)
                channel.readable = True
            former.note(former.interest | direction)
        else:  # the former's fd was closed behind its back, and the number given out anew
            self.channels[channel.fd] = channel
            former.note(0)
            former.close()
        channel.note(channel.interest | direction)
        if channel.closed:  # by another thread, just now
            self.unregister(channel)

    def unregister(self, channel: Channel) -> None:
        interest = channel.interest
        channel.note(0)
        if not interest:
            return
        fd = channel.fd
        if self.channels.get(fd) is channel:
            del self.channels[fd]
            try:
                self.unwatch(fd, interest)
            except (OSError, ValueError):  # ENOENT, EBADF: closed behind our back; or this poller is closed itself
                pass
            for twin in self.twins.pop(fd, ()):  # those who wait on them try, and register anew
                twin.note(0)
                twin.ready(READ | WRITE)
        elif channel in self.twins.get(fd, ()):
            self.twins[fd].remove(channel)
            self.channels[fd].ready(READ | WRITE)  # if the fd is closed now, they find that out by trying

    def watch(self, channel: Channel, interest: int, newcomer: Channel | None = None) -> bool:
        """Have the fd of ``channel`` watched for ``interest``; False if a newcomer's, of that number, is another."""
        raise NotImplementedError

    def unwatch(self, fd: int, interest: int) -> None:
        raise NotImplementedError

    def tell(self, channel: Channel, directions: int, unusual: bool) -> None:
        """Pass an event on to a channel and its twins."""
        for each in (channel, *self.twins.get(channel.fd, ())):
            if unusual:
                each.drains = False
            each.ready(directions)

    def abandon(self) -> None:
        super().abandon()
        self.twins.clear()


class Epoll(Edged):
    """Linux: an epoll of our own. Writing is watched only once somebody had to wait for it.

    (A Unix socket reports itself writable each time its peer reads; watching both from the start costs it 30 %.)
    """

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        self.epoll = originals.epoll()
        self.trust = TRUST
        ioloop.add_handler(self.epoll.fileno(), on_ready, IOLoop.READ)

    def watch(self, channel: Channel, interest: int, newcomer: Channel | None = None) -> bool:
        mask = EDGES | (EPOLLIN if interest & READ else 0) | (EPOLLOUT if interest & WRITE else 0)
        if channel.interest and newcomer is None:
            self.epoll.modify(channel.fd, mask)
            return True
        try:
            self.epoll.register(channel.fd, mask)
        except FileExistsError:  # the number still stands for the file that was registered under it
            self.epoll.modify(channel.fd, mask)
            return True
        except OSError:
            if newcomer is None:
                del self.channels[channel.fd]
            raise
        return newcomer is None

    def unwatch(self, fd: int, interest: int) -> None:
        self.epoll.unregister(fd)

    def poll(self) -> None:
        channels, twins = self.channels, self.twins or None
        found = self.epoll.poll(0, BATCH)
        self.events += len(found)
        for fd, events in found:
            try:
                channel = channels[fd]
            except KeyError:
                continue
            if twins is None and (events == EPOLLIN or (events == INOUT and not channel.writers)):
                # tell(), ready() and wake(), written out: 8 % of an echo. Both come where somebody has waited to write
                channel.readable = True
                readers = channel.readers
                if readers:
                    for waiter in readers:
                        try:
                            del waiter.parked[0]
                        except IndexError:
                            continue
                        waiter.queue.append(waiter)  # which is awake, as it asks
                    readers.clear()
            elif events & UNUSUAL:
                self.tell(channel, READ | WRITE, unusual=True)
            else:
                directions = (READ if events & EPOLLIN else 0) | (WRITE if events & EPOLLOUT else 0)
                self.tell(channel, directions, unusual=False)
        if self.doubts:
            self.trust -= 1
            if not found or not self.trust:
                self.look_again()

    def look_again(self) -> None:
        """Ask for the state of those that are in doubt: changing a registration tells it anew, as an event."""
        for fd in {channel.fd for channel in self.doubts if channel.watched and not channel.readable}:
            channel = self.channels[fd]
            try:
                self.watch(channel, channel.interest)
            except OSError:  # closed behind our back
                pass
        self.doubts.clear()
        self.trust = TRUST

    def detach(self) -> None:
        if not self.epoll.closed:
            self.ioloop.remove_handler(self.epoll.fileno())
            self.epoll.close()

    def abandon(self) -> None:
        super().abandon()
        self.epoll.close()  # the child's copy; the set of registrations is the parent's too, so no changes to it


EPOLLIN = EPOLLOUT = INOUT = EDGES = UNUSUAL = 0
if originals.epoll:
    EPOLLIN, EPOLLOUT = select.EPOLLIN, select.EPOLLOUT
    INOUT = EPOLLIN | EPOLLOUT
    UNUSUAL = select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP | select.EPOLLPRI
    EDGES = select.EPOLLET | select.EPOLLRDHUP | select.EPOLLPRI


class Kqueue(Edged):
    """macOS and BSD: a kqueue of our own, with EV_CLEAR for edges."""

    def __init__(self, ioloop: IOLoop, on_ready: Callable[[int, int], None]) -> None:
        super().__init__(ioloop)
        self.kit: Any = select  # its kqueue names are unknown to the type checker of other platforms
        self.kqueue = originals.kqueue()
        self.filters = {READ: self.kit.KQ_FILTER_READ, WRITE: self.kit.KQ_FILTER_WRITE}
        ioloop.add_handler(self.kqueue.fileno(), on_ready, IOLoop.READ)

    def change(self, fd: int, directions: int, flags: int) -> None:
        for direction, filter in self.filters.items():
            if directions & direction:
                self.kqueue.control([self.kit.kevent(fd, filter, flags)], 0, 0)

    def watch(self, channel: Channel, interest: int, newcomer: Channel | None = None) -> bool:
        try:
            self.change(channel.fd, interest, self.kit.KQ_EV_ADD | self.kit.KQ_EV_CLEAR)
        except OSError:
            if newcomer is None and not channel.interest:
                del self.channels[channel.fd]
            raise
        return True  # a kqueue does not tell whether the number stands for another file by now: a twin is always right

    def unwatch(self, fd: int, interest: int) -> None:
        self.change(fd, interest, self.kit.KQ_EV_DELETE)

    def poll(self) -> None:
        for event in self.kqueue.control(None, BATCH, 0):
            self.events += 1
            channel = self.channels.get(event.ident)
            if channel is None:
                continue
            if event.flags & (self.kit.KQ_EV_EOF | self.kit.KQ_EV_ERROR):
                self.tell(channel, READ | WRITE, unusual=True)
            else:
                self.tell(channel, READ if event.filter == self.kit.KQ_FILTER_READ else WRITE, unusual=False)

    def detach(self) -> None:
        if not self.kqueue.closed:
            self.ioloop.remove_handler(self.kqueue.fileno())
            self.kqueue.close()

    def abandon(self) -> None:
        super().abandon()
        try:
            self.kqueue.close()
        except OSError:  # a kqueue is not inherited: the number is closed already
            pass


class Portable(Poller):
    """Anywhere: the IOLoop's own handlers, level-triggered, so an fd that nobody waits for is taken off again.

    The loop watches a duplicate that is the poller's own. So any thread may close the fd itself at any time; the
    duplicate is taken off in the loop's thread before it is closed, as uvloop wants it; channels of one fd do not meet.
    """

    def __init__(self, ioloop: IOLoop) -> None:
        super().__init__(ioloop)
        self.numbers: dict[Channel, int] = {}
        self.duplicates: set[int] = set()  # what of ours is open, some of it perhaps only until the loop has its turn
        self.ident = originals.get_ident()

    def register(self, channel: Channel, direction: int) -> None:
        if channel.closed:
            raise closed_error()
        interest = channel.interest | direction
        number = self.numbers.get(channel)
        if number is not None:
            self.ioloop.update_handler(number, events_of(interest))
        else:
            number = os.dup(channel.fd)
            self.duplicates.add(number)
            try:
                self.ioloop.add_handler(number, self.handle, events_of(interest))
            except BaseException:
                self.drop(number)  # the IOLoop keeps even a number that could not be watched
                raise
            self.channels[number], self.numbers[channel] = channel, number
        channel.note(interest)
        if channel.closed:
            self.unregister(channel)

    def unregister(self, channel: Channel) -> None:
        channel.note(0)
        number = self.numbers.pop(channel, None)
        if number is None:
            return
        del self.channels[number]
        if originals.get_ident() == self.ident:
            self.drop(number)
        else:
            self.ioloop.add_callback(self.drop, number)

    relax = unregister

    def drop(self, number: int) -> None:
        if number in self.duplicates:
            self.duplicates.remove(number)
            self.ioloop.remove_handler(number)
            originals.close(number)

    def handle(self, number: int, events: int) -> None:
        """Pass an event of the loop on. Those it wakes rouse the scheduler, which sleeps while the loop runs."""
        self.events += 1
        channel = self.channels.get(number)
        if channel is None:
            return
        if events & IOLoop.ERROR:
            events |= IOLoop.READ | IOLoop.WRITE
        channel.ready((READ if events & IOLoop.READ else 0) | (WRITE if events & IOLoop.WRITE else 0))
        wanted = (READ if channel.readers else 0) | (WRITE if channel.writers else 0)
        if wanted:
            self.ioloop.update_handler(number, events_of(wanted))
            channel.note(wanted)
        if channel.closed or not wanted:  # by another thread, just now: it is not to count as watched again
            self.unregister(channel)

    def poll(self) -> None:
        """Nothing to ask, and no doubts: the IOLoop calls ``handle`` as long as an fd is ready."""
        self.doubts.clear()

    def detach(self) -> None:
        for channel in list(self.numbers):
            self.unregister(channel)
        for number in list(self.duplicates):
            self.drop(number)

    def abandon(self) -> None:
        for number in self.duplicates:  # the child's copies
            originals.close(number)
        super().abandon()
        self.numbers.clear()
        self.duplicates.clear()


def events_of(interest: int) -> int:
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
    return Portable(ioloop)
