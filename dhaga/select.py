"""The standard ``select`` on dhagas: ``select``, ``poll`` and ``epoll`` park where they would have to wait.

Each asks the standard one first, with timeout 0. If nothing is ready, the fds go, edge-triggered, into a temporary set
of the operating system (an epoll, a kqueue), and the caller parks on that set's own fd until it is worth asking again;
so it is when a ``dhaga.socket`` among them is closed. A plain OS thread calls the standard one.

Whatever is not defined here, such as ``kqueue``, is the standard module's own (``__getattr__``).
"""

from __future__ import annotations

import math
import operator
import select as standard
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from greenlet import getcurrent

from .kernel import originals
from .kernel.channel import READ, WRITE, Channel, Channels, onlookers
from .kernel.microthread import Dhaga
from .kernel.osthread import OSThread
from .kernel.scheduler import Scheduler, sleep
from .kernel.waiter import Waiter
from .kernel.waiting import here, this_waiter

T = TypeVar("T", bound=Iterable[object])

standard_select: Callable[..., tuple[list[Any], list[Any], list[Any]]] = (
    standard.select
)  # taken before anybody can patch it
POLLIN, POLLPRI, POLLOUT = 1, 2, 4  # wherever there is a poll
LONGEST = 2.0**63 / 1e9
MOST_MILLISECONDS = 2**31 - 1
EAGER = 16
"""After so many answers at once others have a turn: who polls in a loop may be polling for what they are to do."""

CLOSING_SECONDS = 0.001
"""Another thread that said it would close an fd has done so after this time."""


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


def select(
    rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait until something in the lists is ready for reading, for writing, or has urgent data. Parks: ``select``.

    Raises: TypeError, ValueError, OSError (EBADF). Source: ``select.select``.
    """
    limit = seconds_of(timeout, "timeout must be a float or None")
    if limit is not None and limit < 0:
        raise ValueError("timeout must be non-negative")
    lists = [things if isinstance(things, (list, tuple)) else list(things) for things in (rlist, wlist, xlist)]
    answers.begin()
    found = standard_select(*lists, 0)
    if limit == 0 or any(found):
        return found
    answers.at_once = 0
    me = this_waiter()
    if isinstance(me, OSThread):
        return standard_select(*lists, timeout)
    interests: dict[int, int] = {}
    for things, event in zip(lists, (POLLIN, POLLOUT, POLLPRI), strict=True):
        for thing in things:
            fd = fileno_of(thing)
            interests[fd] = interests.get(fd, 0) | event
    return wait_for("select", me, lambda: standard_select(*lists, 0), interests, limit)


class poll:
    """A list of fds to wait for. Source: ``select.poll``."""

    __slots__ = ("masks", "polling", "real")

    def __init__(self) -> None:
        self.real = originals.poll()
        self.masks: dict[int, int] = {}
        self.polling = False

    def __repr__(self) -> str:
        return f"<poll of {len(self.masks)} fds{', polling' if self.polling else ''}>"

    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT, /) -> None:
        """Add an fd, or change what it is watched for."""
        self.real.register(fd, eventmask)
        self.masks[fileno_of(fd)] = operator.index(eventmask)

    def modify(self, fd: Any, eventmask: int, /) -> None:
        """Change what an fd is watched for. Raises: FileNotFoundError if it was not registered."""
        self.real.modify(fd, eventmask)
        self.masks[fileno_of(fd)] = operator.index(eventmask)

    def unregister(self, fd: Any, /) -> None:
        """Remove an fd. Raises: KeyError."""
        self.real.unregister(fd)
        del self.masks[fileno_of(fd)]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Wait until an fd has an event, for ``timeout`` milliseconds; None or below 0: for ever. Parks: ``poll``.

        Raises: RuntimeError if the object is being polled already.
        """
        limit = seconds_of(timeout, "timeout must be an integer or None")
        if limit is not None and math.ceil(limit) > MOST_MILLISECONDS:
            raise OverflowError("timeout is too large")
        if self.polling:
            raise RuntimeError("concurrent poll() invocation")
        self.polling = True
        try:
            answers.begin()
            return self.real.poll(0) or self.poll_long(limit)
        finally:
            self.polling = False

    def poll_long(self, limit: float | None) -> list[tuple[int, int]]:
        if limit == 0:
            return []
        answers.at_once = 0
        me = this_waiter()
        if isinstance(me, OSThread):
            return self.real.poll(limit)  # type: ignore[no-any-return]
        interests = dict(self.masks)
        asked = originals.poll()  # as the standard does, which takes note of later changes in the next call
        for fd, mask in interests.items():
            asked.register(fd, mask)
        seconds = None if limit is None or limit < 0 else math.ceil(limit) / 1000
        return wait_for("poll", me, lambda: asked.poll(0), interests, seconds)


class epoll:
    """A set of fds in the kernel; only ``poll`` waits. Source: ``select.epoll``."""

    __slots__ = ("channels", "real")

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self.adopt(originals.epoll(sizehint, flags))

    def adopt(self, real: Any) -> Self:
        self.real = real
        self.channels = Channels(real.fileno())
        return self

    @classmethod
    def fromfd(cls, fd: int, /) -> Self:
        """Make an object over an fd that is an epoll already."""
        return cls.__new__(cls).adopt(originals.epoll.fromfd(fd))

    def __repr__(self) -> str:
        return f"<epoll {'closed' if self.closed else f'fd {self.fileno()}'}>"

    def __enter__(self) -> Self:
        self.real.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the set's own fd. Raises: ValueError once closed."""
        return self.real.fileno()  # type: ignore[no-any-return]

    @property
    def closed(self) -> bool:
        """Whether the set is closed."""
        return self.real.closed  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the set; whoever waits on it gets EBADF."""
        self.channels.close()
        self.real.close()

    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT) -> None:
        """Add an fd. Raises: FileExistsError."""
        self.real.register(fd, eventmask)

    def modify(self, fd: Any, eventmask: int) -> None:
        """Change what an fd is watched for. Raises: FileNotFoundError."""
        self.real.modify(fd, eventmask)

    def unregister(self, fd: Any) -> None:
        """Remove an fd. Raises: FileNotFoundError."""
        self.real.unregister(fd)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait until an fd has an event, for ``timeout`` seconds; None or below 0: for ever. Parks: ``read fd N``."""
        limit = seconds_of(timeout, "timeout must be an integer or None")
        if limit is not None and math.ceil(limit * 1000) > MOST_MILLISECONDS:
            raise OverflowError("timeout is too large")
        answers.begin()
        events = self.real.poll(0, maxevents)
        if events or limit == 0:
            return events  # type: ignore[no-any-return]
        answers.at_once = 0
        me = this_waiter()
        if isinstance(me, OSThread):
            return self.real.poll(timeout, maxevents)  # type: ignore[no-any-return]
        channel = self.channels.of(me)
        deadline = None if limit is None or limit < 0 else me.scheduler.clock() + limit
        while not events:
            try:
                channel.wait_readable(me, None if deadline is None else max(0.0, deadline - me.scheduler.clock()))
            except TimeoutError:
                return self.real.poll(0, maxevents)  # type: ignore[no-any-return]
            events = self.real.poll(0, maxevents)
        return events  # type: ignore[no-any-return]


if originals.poll is None:
    del poll
if originals.epoll is None:
    del epoll


# ---- arguments


def seconds_of(timeout: Any, complaint: str) -> float | None:
    """Check a timeout as the standard does."""
    if timeout is None:
        return None
    if not isinstance(timeout, float):
        try:
            timeout = operator.index(timeout)
        except TypeError:
            raise TypeError(complaint) from None
    if timeout != timeout:
        raise ValueError("Invalid value NaN (not a number)")
    if abs(timeout) >= LONGEST:
        raise OverflowError("timestamp out of range for platform time_t")
    return timeout  # type: ignore[no-any-return]


def fileno_of(thing: Any) -> int:
    """Return the fd that an int is or an object has; the standard has checked it before."""
    return thing if isinstance(thing, int) else thing.fileno()


# ---- waiting


class Answers:
    """How many answers were there at once, one after the other."""

    at_once = 0

    def begin(self) -> None:
        """Count one more, as long as nobody waits; after ``EAGER`` let others run, if anybody can park here."""
        self.at_once += 1
        if self.at_once > EAGER:
            self.at_once = 0
            if isinstance(getcurrent(), Dhaga) or (here.main is not None and self.main_may_park(_get_running_loop())):
                sleep(0)

    def main_may_park(self, loop: object) -> bool:
        """Tell whether the main code runs, or a loop that it runs itself: see ``dhaga/asyncio.py``."""
        return loop is None or getattr(loop, "parks", False)


answers = Answers()


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
