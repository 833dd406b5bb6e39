"""Several fds watched together: how ``select`` and ``poll`` park until it is worth asking again.

The fds go, edge-triggered, into a temporary set of the operating system (an epoll, a kqueue), and the waiter parks on
that set's own fd. Not here: what is asked, and what it means (``select.py``).
"""

from __future__ import annotations

import select as standard
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .kernel import originals
from .kernel.channel import READ, WRITE, Channel, onlookers
from .kernel.scheduler import Scheduler, sleep
from .kernel.waiter import Waiter

T = TypeVar("T", bound=Iterable[object])

POLLIN, POLLPRI, POLLOUT = 1, 2, 4  # wherever there is a poll
CLOSING_SECONDS = 0.001
"""Another thread that said it would close an fd has done so after this time."""


def wait_for(why: str, me: Waiter, ask: Callable[[], T], interests: dict[int, int], limit: float | None) -> T:
    """Park until ``ask()`` finds something, or the time is over."""
    clock = me.scheduler.clock
    deadline = None if limit is None else clock() + limit
    while True:
        with gathered(f"{why} fd {', '.join(map(str, interests))}"[:60], me.scheduler, interests) as gathering:
            found = ask()
            while not any(found) and not gathering.told:
                left = None if deadline is None else deadline - clock()
                if left is not None and left <= 0:
                    return found
                gathering.wait(me, left)
                found = ask()
        if any(found):
            return found
        sleep(CLOSING_SECONDS)


@contextmanager
def gathered(reason: str, scheduler: Scheduler, interests: dict[int, int]) -> Iterator[Gathering | HandlerGathering]:
    """Watch fds together; in the end nothing of it is left."""
    gathering = gathering_here(reason, scheduler)
    try:
        for fd, events in interests.items():
            onlookers.setdefault(fd, []).append(gathering.tell)
            try:
                gathering.add(fd, events)
            except OSError:  # a regular file, of which there is nothing to be told; or a closed fd, which asking shows
                pass
        yield gathering
    finally:
        for fd in interests:
            onlookers[fd].remove(gathering.tell)
            if not onlookers[fd]:
                del onlookers[fd]
        gathering.close()


class Gathering:
    """Some fds watched together, edge-triggered: an event that is none for the caller does not come again and again."""

    def __init__(self, reason: str, channel: Channel) -> None:
        self.channel = channel
        channel.reading = reason

    def add(self, fd: int, events: int) -> None:
        """Watch an fd for events of ``select.poll``. Raises: OSError."""
        raise NotImplementedError

    def take(self) -> None:
        """Take what has happened out of the set, so that it counts as news no more."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    @property
    def told(self) -> bool:
        """Whether one of the fds is about to be closed."""
        return self.channel.closed

    def tell(self) -> None:
        """Have the waiter ask again, as one of the fds is about to be closed. From: any thread."""
        self.channel.close()

    def wait(self, me: Waiter, timeout: float | None) -> None:
        """Park until there is news or the time is over."""
        try:
            self.channel.wait_readable(me, timeout)
        except TimeoutError:
            pass
        except OSError:
            if not self.told:
                raise
        self.take()


class EpollGathering(Gathering):
    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.epoll = originals.epoll()
        super().__init__(reason, Channel(scheduler, self.epoll.fileno()))

    def add(self, fd: int, events: int) -> None:
        self.epoll.register(fd, events | standard.EPOLLET)

    def take(self) -> None:
        self.epoll.poll(0)

    def close(self) -> None:
        self.channel.close()
        self.epoll.close()


class KqueueGathering(Gathering):
    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.kit: Any = standard
        self.kqueue = originals.kqueue()
        super().__init__(reason, Channel(scheduler, self.kqueue.fileno()))

    def add(self, fd: int, events: int) -> None:
        flags = self.kit.KQ_EV_ADD | self.kit.KQ_EV_CLEAR
        if events != POLLOUT:  # urgent data and the end are news for the reading filter too
            self.kqueue.control([self.kit.kevent(fd, self.kit.KQ_FILTER_READ, flags)], 0, 0)
        if events & POLLOUT:
            self.kqueue.control([self.kit.kevent(fd, self.kit.KQ_FILTER_WRITE, flags)], 0, 0)

    def take(self) -> None:
        self.kqueue.control(None, 1024, 0)

    def close(self) -> None:
        self.channel.close()
        self.kqueue.close()


class HandlerGathering:
    """The same where the operating system has no such sets: a channel for each fd, over handlers of the IOLoop.

    They are level-triggered, and do not tell of urgent data.
    """

    def __init__(self, reason: str, scheduler: Scheduler) -> None:
        self.reason = reason
        self.scheduler = scheduler
        self.watched: list[tuple[Channel, int]] = []
        self.told = False
        self.waiter: Waiter | None = None

    def add(self, fd: int, events: int) -> None:
        """Watch an fd for events of ``select.poll``. Raises: OSError."""
        directions = (READ if events & ~(POLLOUT | POLLPRI) else 0) | (WRITE if events & POLLOUT else 0)
        channel = Channel(self.scheduler, fd)
        if directions:
            self.scheduler.poller.register(channel, directions)
            self.watched.append((channel, directions))

    def tell(self) -> None:
        """Have the waiter ask again, as one of the fds is about to be closed. From: any thread."""
        self.told = True
        if self.waiter is not None:
            self.waiter.unpark()

    def wait(self, me: Waiter, timeout: float | None) -> None:
        """Park until there is news or the time is over."""
        for channel, directions in self.watched:
            self.scheduler.poller.register(channel, directions)
        me.prepare(self.reason, self)
        self.waiter = me
        for channel, directions in self.watched:
            channel.readers += [me] if directions & READ else []
            channel.writers += [me] if directions & WRITE else []
        if self.told:
            me.unpark()
        try:
            me.park(timeout)
        except TimeoutError:
            pass
        finally:
            self.remove(me)

    def remove(self, waiter: Waiter) -> None:
        """Take the waiter off all fds but the one that woke it."""
        self.waiter = None
        for channel, _ in self.watched:
            for waiters in (channel.readers, channel.writers):
                if waiter in waiters:
                    waiters.remove(waiter)

    def close(self) -> None:
        for channel, _ in self.watched:
            channel.close()


def gathering_here(reason: str, scheduler: Scheduler) -> Gathering | HandlerGathering:
    if originals.epoll is not None:
        return EpollGathering(reason, scheduler)
    if originals.kqueue is not None:
        return KqueueGathering(reason, scheduler)
    return HandlerGathering(reason, scheduler)
