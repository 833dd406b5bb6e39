"""Channels: who waits for a file descriptor.

A ``Channel`` is one fd at the poller of one scheduler, a ``ThreadChannel`` the same for the plain OS threads.
``Channels`` holds those of one object that owns an fd, such as a socket, and ends them with it. Every wait for an fd
goes through one.

Not here: how readiness is learnt (``poller.py``), and what is done with it (``dhaga/socket.py``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from . import originals
from .waiter import Waiter

if TYPE_CHECKING:
    from .poller import Poller
    from .scheduler import Scheduler

READ, WRITE = 1, 2

onlookers: dict[int, list[Callable[[], object]]] = {}
"""What to call before an fd is closed, for those who watch it by its bare number (``dhaga.select``)."""


def closed_error() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))


class Channel:
    """One file descriptor at one poller: who waits for it, and what is known of its readiness.

    ``readable``: try the system call (True) or park (False); writers always try. ``drains``: a short read means that
    nothing is left, so the next one may park without trying; no longer so once the peer has hung up, an error is
    pending or urgent data came, as no further edge tells of those. ``doubtful``: it means so most of the time only, and
    the poller is to look again (``doubts``): a Unix socket also ends a read where descriptors were passed.
    """

    __slots__ = (
        "closed",
        "doubtful",
        "drains",
        "fd",
        "interest",
        "poller",
        "readable",
        "readers",
        "reading",
        "scheduler",
        "watched",
        "writers",
    )

    def __init__(self, scheduler: Scheduler, fd: int) -> None:
        self.scheduler = scheduler
        self.poller: Poller = scheduler.poller
        self.fd = fd
        self.interest = 0
        self.watched = False
        self.readable = True
        self.drains: bool | None = None  # not decided yet
        self.doubtful = False
        self.closed = False
        self.readers: list[Waiter] = []
        self.writers: list[Waiter] = []
        self.reading = f"read fd {fd}"

    def __repr__(self) -> str:
        return f"<Channel fd {self.fd}, {len(self.readers)} readers and {len(self.writers)} writers parked>"

    def note(self, interest: int) -> None:
        """Note the directions in which the poller watches the fd; ``watched``: reading is among them."""
        self.interest = interest
        self.watched = bool(interest & READ)

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> None:
        """Park until the fd may be read (``read fd N``). Raises: TimeoutError, OSError (EBADF) once it is closed."""
        me.prepare(self.reading, self)
        self.readers.append(me)
        if not self.watched:
            self.begin(me, READ)
        me.park(timeout)

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> None:
        """Park until the fd may be written (``write fd N``). Raises: as ``wait_readable``."""
        me.prepare(f"write fd {self.fd}", self)
        self.writers.append(me)
        if not self.interest & WRITE:
            self.begin(me, WRITE)
        me.park(timeout)

    def begin(self, me: Waiter, direction: int) -> None:
        """Have a direction watched from now on; if that fails, or the channel is closed, wake ``me`` with the error.

        Called once the waiter is parked: a closing thread ends the watch first, then wakes whom it finds parked.
        """
        try:
            self.poller.register(self, direction)
        except Exception as error:
            for waiters in (self.readers, self.writers):
                if me in waiters:
                    waiters.remove(me)
            me.unpark(error=error)

    def remove(self, waiter: Waiter) -> None:
        """Undo a wait."""
        (self.readers if waiter in self.readers else self.writers).remove(waiter)
        if not self.readers and not self.writers:
            self.poller.relax(self)

    def ready(self, directions: int) -> None:
        """Note readiness and wake everybody parked for it; they try, and who comes too late parks again."""
        if directions & READ:
            self.readable = True
            if self.readers:
                wake_all(self.readers)
        if directions & WRITE and self.writers:
            wake_all(self.writers)

    def close(self) -> None:
        """Take the fd off the poller, before it is closed, and wake its waiters with EBADF. From: any thread."""
        self.closed = True
        self.poller.unregister(self)
        for waiters in (self.readers, self.writers):
            while waiters:
                waiters.pop(0).unpark(error=closed_error())


def wake_all(waiters: list[Waiter]) -> None:
    for waiter in waiters:
        waiter.unpark()
    waiters.clear()


class ThreadChannel:
    """What a ``Channel`` is to a scheduler, to plain OS threads. Each polls the fd itself; closing rings it a bell."""

    __slots__ = ("buttons", "closed", "doubtful", "drains", "fd", "guard", "readable", "scheduler")

    def __init__(self, fd: int) -> None:
        self.scheduler = None
        self.fd = fd
        self.readable = True
        self.drains: bool | None = None
        self.doubtful = False
        self.closed = False
        self.guard = originals.allocate_lock()
        self.buttons: list[int] = []  # the writing ends of the bells of the threads that wait

    def __repr__(self) -> str:
        return f"<ThreadChannel fd {self.fd}, {len(self.buttons)} threads blocked>"

    def wait_readable(self, me: Waiter, timeout: float | None = None) -> None:
        """Block until the fd may be read. Raises: as ``Channel.wait_readable``."""
        self.wait(originals.select_module.POLLIN, timeout)
        self.readable = True

    def wait_writable(self, me: Waiter, timeout: float | None = None) -> None:
        """Block until the fd may be written. Raises: as ``Channel.wait_writable``."""
        self.wait(originals.select_module.POLLOUT, timeout)

    def wait(self, event: int, timeout: float | None) -> None:
        bell, button = originals.pipe()
        self.buttons.append(button)
        try:
            ready = self.closed or self.poll(event, bell, timeout)
        finally:
            with self.guard:  # from here on nobody rings
                self.buttons.remove(button)
            originals.close(button)
            originals.close(bell)
        if self.closed:
            raise closed_error()
        if not ready:
            raise TimeoutError("timed out")

    def poll(self, event: int, bell: int, timeout: float | None) -> Any:
        poll = originals.poll()
        poll.register(self.fd, event)
        poll.register(bell, originals.select_module.POLLIN)
        return poll.poll(None if timeout is None else max(0.0, timeout) * 1000)

    def close(self) -> None:
        """Wake every thread that waits for the fd with EBADF, before it is closed. From: any thread."""
        self.closed = True
        with self.guard:
            for button in self.buttons:
                originals.write(button, b"!")


AnyChannel: TypeAlias = Channel | ThreadChannel


class Channels(dict[Any, AnyChannel]):
    """The channels of one fd, by scheduler (None: the plain OS threads); they end with the object that owns the fd."""

    __slots__ = ("closed", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False

    def __del__(self) -> None:
        """Leave the pollers if the owner was dropped without being closed; its fd is closed by now."""
        if not self.closed:
            self.close()

    def of(self, waiter: Any) -> AnyChannel:
        """Return the channel through which the waiter's scheduler, or the plain threads, watch the fd.

        Raises: OSError (EBADF) once closed.
        """
        scheduler = getattr(waiter, "scheduler", None)
        channel = self.get(scheduler)
        if channel is None:
            made = ThreadChannel(self.fd) if scheduler is None else Channel(scheduler, self.fd)
            channel = self.setdefault(scheduler, made)
        if self.closed:  # looked at after the channel can be found by close()
            raise closed_error()
        return channel

    def close(self) -> None:
        """Take the fd off every poller, before it is closed, and wake whoever waits for it. From: any thread."""
        self.closed = True
        for channel in list(self.values()):
            channel.close()
        if onlookers:
            for tell in list(onlookers.get(self.fd, ())):
                tell()
