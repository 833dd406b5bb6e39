"""The standard ``select`` on dhagas: ``select``, ``poll``, ``epoll`` and ``kqueue`` park where they would block.

Each function first calls its standard counterpart with timeout 0. If no fd is ready, the caller parks until another
poll may find an event (``_iowait/fd_set.py``), or until a ``dhaga.socket`` or ``dhaga.os.close`` closes one of the fds.
A plain OS thread blocks in the standard function.

A program that polls in a loop and always gets an immediate result would never park, even if it waited for an action of
other dhagas. So after ``ANSWERS_BEFORE_YIELD`` immediate results in a row the caller yields.

All other names are the standard module's own.
"""

from __future__ import annotations

import math
import operator
import select as standard
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self

from greenlet import getcurrent

from ._iowait.fd_set import POLLIN as POLLIN
from ._iowait.fd_set import POLLOUT as POLLOUT
from ._iowait.fd_set import POLLPRI as POLLPRI
from ._iowait.fd_set import wait_for
from ._kernel import originals
from ._kernel.faces.foreign_names import refuse_async_with
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to, refuse_copy
from ._kernel.run.fd_watch import FdWatchers
from ._kernel.run.main_code import Main
from ._kernel.run.microthread import Dhaga
from ._kernel.run.scheduler import sleep
from ._kernel.wait.current import parking_waiter, this_waiter
from ._kernel.wait.thread_waiter import OSThread
from ._kernel.wait.waiter import TIMED_OUT, Waiter

# The standard function, taken before a patch can replace it.
standard_select: Callable[..., tuple[list[Any], list[Any], list[Any]]] = standard.select
MAX_SECONDS = 2.0**63 / 1e9
MAX_MILLISECONDS = 2**31 - 1  # the maximum of ``epoll_wait``
MAX_POLL_MILLISECONDS = MAX_MILLISECONDS if sys.version_info < (3, 15) else math.inf
ANSWERS_BEFORE_YIELD = 16
"""The number of immediate results in a row, counted over all callers of the process, after which a caller yields."""

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


@builtin_function
def select(
    rlist: Any, wlist: Any, xlist: Any, timeout: float | None = None, /
) -> tuple[list[Any], list[Any], list[Any]]:
    """Wait until an fd is readable (``rlist``), writable (``wlist``) or has urgent data (``xlist``). Parks: ``select``.

    Raises: TypeError, ValueError, OSError (EBADF). Source: ``select.select``.
    """
    limit = seconds_of(timeout, "timeout must be a float or None")
    if limit is not None and limit < 0:
        raise ValueError("timeout must be non-negative")
    lists = [things if isinstance(things, (list, tuple)) else list(things) for things in (rlist, wlist, xlist)]
    immediate.count_call()
    found = standard_select(*lists, 0)
    if limit == 0 or any(found):
        immediate.end_call()
        return found
    immediate.in_a_row = 0
    me = this_waiter()
    if isinstance(me, OSThread):
        return standard_select(*lists, timeout)
    events_by_fd: dict[int, int] = {}
    for things, event in zip(lists, (POLLIN, POLLOUT, POLLPRI), strict=True):
        for thing in things:
            fd = fileno_of(thing)
            events_by_fd[fd] = events_by_fd.get(fd, 0) | event
    return wait_for("select", me, lambda: standard_select(*lists, 0), events_by_fd, limit)


class poll:
    """A set of fds whose events ``poll`` waits for. Source: ``select.poll``."""

    __slots__ = ("masks", "polling", "real")

    __getstate__: Any = refuse_copy

    def __init__(self) -> None:
        self.real: Any = originals.poll()
        self.masks: dict[int, int] = {}
        self.polling: bool = False

    def __repr__(self) -> str:
        return f"<poll of {len(self.masks)} fds{', polling' if self.polling else ''}>"

    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT, /) -> None:
        """Add an fd, or change the events for which it is watched."""
        self.real.register(fd, eventmask)
        self.masks[fileno_of(fd)] = operator.index(eventmask)

    def modify(self, fd: Any, eventmask: int, /) -> None:
        """Change the events for which an fd is watched. Raises: FileNotFoundError if the fd was not registered."""
        self.real.modify(fd, eventmask)
        self.masks[fileno_of(fd)] = operator.index(eventmask)

    def unregister(self, fd: Any, /) -> None:
        """Remove an fd. Raises: KeyError if the fd was not registered."""
        self.real.unregister(fd)
        del self.masks[fileno_of(fd)]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Wait at most ``timeout`` milliseconds for an event; forever if None or below 0. Parks: ``poll``.

        Raises: RuntimeError if the object is being polled already.
        """
        limit = seconds_of(timeout, "timeout must be an integer or None")
        if limit is not None and math.ceil(limit) > MAX_POLL_MILLISECONDS:
            raise OverflowError("timeout is too large")
        if self.polling:
            raise RuntimeError("concurrent poll() invocation")
        self.polling = True
        try:
            immediate.count_call()
            found: list[tuple[int, int]] = self.real.poll(0)
            if not found and limit != 0:
                return self.poll_slow_path(limit)
            immediate.end_call()
            return found
        finally:
            self.polling = False

    def poll_slow_path(self, limit: float | None) -> list[tuple[int, int]]:
        """Park until an fd has an event or ``limit`` milliseconds have passed."""
        immediate.in_a_row = 0
        me = this_waiter()
        if isinstance(me, OSThread):
            return self.real.poll(limit)  # type: ignore[no-any-return]
        events_by_fd = dict(self.masks)
        # Use a copy, because changes made meanwhile apply only to the next call, as with the standard class.
        snapshot = originals.poll()
        for fd, mask in events_by_fd.items():
            snapshot.register(fd, mask)
        seconds = None if limit is None or limit < 0 else math.ceil(limit) / 1000
        return wait_for("poll", me, lambda: snapshot.poll(0), events_by_fd, seconds)


class KernelSet:
    """Base class of epoll and kqueue, kernel objects with their own fd. ``standard``: the standard library's class."""

    __slots__ = ("real", "watchers")

    standard: ClassVar[Any]

    __getstate__: Any = refuse_copy

    def adopt(self, real: Any) -> Self:
        """Wrap a standard object, and create the watchers of its fd."""
        self.real: Any = real
        self.watchers: FdWatchers = FdWatchers(real.fileno())
        return self

    @classmethod
    def fromfd(cls, fd: int, /) -> Self:
        """Return a set over an existing fd of this kind."""
        return cls.__new__(cls).adopt(cls.standard.fromfd(fd))

    def __repr__(self) -> str:
        return f"<{self.standard.__name__} {'closed' if self.closed else f'fd {self.fileno()}'}>"

    def fileno(self) -> int:
        """Return the set's own fd. Raises: ValueError if the set is closed."""
        return self.real.fileno()  # type: ignore[no-any-return]

    @property
    def closed(self) -> bool:
        """Whether the set is closed."""
        return self.real.closed  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the set; its waiters get EBADF."""
        self.watchers.close()
        self.real.close()


@refuse_async_with()
class epoll(KernelSet):
    """A set of fds in the kernel, for whose events ``poll`` waits. Source: ``select.epoll``."""

    __slots__ = ()

    standard: ClassVar[Any] = originals.epoll

    def __init__(self, sizehint: int = -1, flags: int = 0) -> None:
        self.adopt(originals.epoll(sizehint, flags))

    def __enter__(self) -> Self:
        self.real.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def register(self, fd: Any, eventmask: int = POLLIN | POLLPRI | POLLOUT) -> None:
        """Add an fd. Raises: FileExistsError if the fd is registered already."""
        self.real.register(fd, eventmask)

    def modify(self, fd: Any, eventmask: int) -> None:
        """Change the events for which an fd is watched. Raises: FileNotFoundError if the fd was not registered."""
        self.real.modify(fd, eventmask)

    def unregister(self, fd: Any) -> None:
        """Remove an fd. Raises: FileNotFoundError if the fd was not registered."""
        self.real.unregister(fd)

    def poll(self, timeout: float | None = None, maxevents: int = -1) -> list[tuple[int, int]]:
        """Wait at most ``timeout`` seconds for an event; forever if None or below 0. Parks: ``read fd N``."""
        limit = seconds_of(timeout, "timeout must be an integer or None")
        if limit is not None and math.ceil(limit * 1000) > MAX_MILLISECONDS:
            raise OverflowError("timeout is too large")
        immediate.count_call()
        events = self.real.poll(0, maxevents)
        if events or limit == 0:
            immediate.end_call()
            return events  # type: ignore[no-any-return]
        immediate.in_a_row = 0
        me = this_waiter()
        if isinstance(me, OSThread):
            return self.real.poll(timeout, maxevents)  # type: ignore[no-any-return]
        within = None if limit is None or limit < 0 else limit
        return poll_watched(self.watchers.of(me), me, within, lambda: self.real.poll(0, maxevents))


class kqueue(KernelSet):
    """A set of filters in the kernel, for whose events ``control`` waits. Source: ``select.kqueue``."""

    __slots__ = ()

    standard: ClassVar[Any] = originals.kqueue

    def __init__(self) -> None:
        self.adopt(originals.kqueue())

    def control(self, changelist: Any, maxevents: int, timeout: float | None = None, /) -> list[Any]:
        """Change filters, then wait at most ``timeout`` seconds for up to ``maxevents`` events. Parks: ``read fd N``.

        Raises: OSError, TypeError, ValueError.
        """
        limit = seconds_of(timeout, "timeout argument must be a number or None")
        if limit is not None and limit < 0:
            return self.real.control(changelist, maxevents, timeout)  # type: ignore[no-any-return]  # raises ValueError
        immediate.count_call()
        events: list[Any] = self.real.control(changelist, maxevents, 0)
        if events or limit == 0 or not maxevents:
            immediate.end_call()
            return events
        immediate.in_a_row = 0
        me = this_waiter()
        if isinstance(me, OSThread):
            return self.real.control(None, maxevents, timeout)  # type: ignore[no-any-return]
        return poll_watched(self.watchers.of(me), me, limit, lambda: self.real.control(None, maxevents, 0))


def poll_watched(watcher: Any, me: Waiter, limit: float | None, poll: Callable[[], list[Any]]) -> list[Any]:
    """Park until ``poll()`` finds an event, or ``limit`` seconds have passed.

    Returns: the last result of ``poll()``.
    """
    deadline = None if limit is None else me.scheduler.clock() + limit
    while True:
        left = None if deadline is None else max(0.0, deadline - me.scheduler.clock())
        outcome = watcher.wait_readable(me, left)
        events = poll()
        if events or outcome is TIMED_OUT:
            return events


if not hasattr(standard, "poll"):
    del poll
if originals.epoll is None:
    del epoll
if originals.kqueue is None:
    del kqueue


# ---- arguments


def seconds_of(timeout: Any, message: str) -> float | None:
    """Return a timeout as a number or None. Raises: TypeError with ``message``, ValueError, OverflowError."""
    if timeout is None:
        return None
    if not isinstance(timeout, float):
        try:
            timeout = operator.index(timeout)
        except TypeError:
            raise TypeError(message) from None
    if timeout != timeout:
        raise ValueError("Invalid value NaN (not a number)")
    if abs(timeout) >= MAX_SECONDS:
        raise OverflowError("timestamp out of range for platform time_t")
    return timeout  # type: ignore[no-any-return]


def fileno_of(thing: Any) -> int:
    """Return an int unchanged, and the fd of any other object. The standard call has validated the argument."""
    return thing if isinstance(thing, int) else thing.fileno()


# ---- yielding in loops that poll


class ImmediateAnswers:
    """A counter of consecutive results that were found without waiting."""

    in_a_row: int = 0
    yield_at_each: bool = False
    """Whether the caller yields after each immediate result. Programs for gevent and eventlet rely on this."""

    def count_call(self) -> None:
        """Count a call; if the count exceeds ``ANSWERS_BEFORE_YIELD``, yield. A park resets the count."""
        self.in_a_row += 1
        if self.in_a_row > ANSWERS_BEFORE_YIELD:
            self.yield_()

    def begin_again(self, count: int = 0) -> int:
        """Set the count. Returns: the former count. From: a simulation, at its start and its end."""
        before, self.in_a_row = self.in_a_row, count
        return before

    def end_call(self) -> None:
        """Yield if ``yield_at_each`` is set. From: a call that is about to return an immediate result."""
        if self.yield_at_each:
            self.yield_()

    def yield_(self) -> None:
        """Yield to other dhagas, if the caller can park."""
        self.in_a_row = 0
        if isinstance(getcurrent(), Dhaga) or isinstance(parking_waiter(), Main):
            sleep(0)


immediate: ImmediateAnswers = ImmediateAnswers()
