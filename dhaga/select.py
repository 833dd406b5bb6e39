"""The standard ``select`` on dhagas: ``select``, ``poll`` and ``epoll`` park where they would have to wait.

Each asks the standard one first, with timeout 0. If nothing is ready, the caller parks until it is worth asking again
(``gatherings.py``); so it is when a ``dhaga.socket`` among the fds is closed. A plain OS thread calls the standard one.

Whatever is not defined here, such as ``kqueue``, is the standard module's own (``__getattr__``).
"""

from __future__ import annotations

import math
import operator
import select as standard
from asyncio import _get_running_loop
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from greenlet import getcurrent

from .gatherings import POLLIN as POLLIN
from .gatherings import POLLOUT as POLLOUT
from .gatherings import POLLPRI as POLLPRI
from .gatherings import wait_for
from .kernel import originals
from .kernel.channel import Channels
from .kernel.microthread import Dhaga
from .kernel.osthread import OSThread
from .kernel.scheduler import sleep
from .kernel.waiting import here, this_waiter

standard_select: Callable[..., tuple[list[Any], list[Any], list[Any]]] = (
    standard.select
)  # taken before anybody can patch it
LONGEST = 2.0**63 / 1e9
MOST_MILLISECONDS = 2**31 - 1
EAGER = 16
"""After so many answers at once others have a turn: who polls in a loop may be polling for what they are to do."""


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


# ---- who polls in a loop


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
