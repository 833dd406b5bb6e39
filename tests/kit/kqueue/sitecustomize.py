"""A ``select.kqueue`` over epoll, so that tests run the code of macOS and BSD on Linux: ``make test-kqueue``.

Python imports this module at its start, before asyncio chooses a selector: the folder is in ``PYTHONPATH``, which child
processes inherit. The names of epoll, which those systems lack, are removed.

The filters for reading and writing behave as kqueue(2) says: one registration per filter, edges with EV_CLEAR,
EV_ONESHOT, EV_DISABLE, ENOENT for a change of an unknown registration, EV_EOF, and errors as events if there is room
for them. Closing an fd removes its registrations, and a forked child does not inherit the queue. Not here: ``data``,
``fflags``, other filters, and regular files, which get EINVAL. An edge of one filter may also report the other filter's
state again. The functions for pidfds remain.
"""

from __future__ import annotations

import errno
import os
import select
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

epoll = select.epoll
READABLE, WRITABLE, END, HANG_UP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLRDHUP, select.EPOLLHUP | select.EPOLLERR
EDGES = select.EPOLLET

READ, WRITE = -1, -2
EVENTS = {READ: READABLE | END, WRITE: WRITABLE}
ADD, DELETE, ENABLE, DISABLE, ONESHOT, CLEAR, ERROR, EOF = 0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x4000, 0x8000
NAMES = {
    "KQ_FILTER_READ": READ,
    "KQ_FILTER_WRITE": WRITE,
    "KQ_EV_ADD": ADD,
    "KQ_EV_DELETE": DELETE,
    "KQ_EV_ENABLE": ENABLE,
    "KQ_EV_DISABLE": DISABLE,
    "KQ_EV_ONESHOT": ONESHOT,
    "KQ_EV_CLEAR": CLEAR,
    "KQ_EV_ERROR": ERROR,
    "KQ_EV_EOF": EOF,
}


class kevent:
    """A change to make, or an event that was found."""

    def __init__(
        self, ident: Any, filter: int = READ, flags: int = ADD, fflags: int = 0, data: int = 0, udata: int = 0
    ) -> None:
        self.ident = ident if isinstance(ident, int) else ident.fileno()
        self.filter, self.flags, self.fflags, self.data, self.udata = filter, flags, fflags, data, udata

    def __repr__(self) -> str:
        return f"<kevent of fd {self.ident}, filter {self.filter}, flags {self.flags:#x}>"


class Registration(NamedTuple):
    """The registration of a filter of an fd. ``file``: device and inode of the registered file."""

    flags: int
    udata: int
    file: tuple[int, int]


def file_of(fd: int) -> tuple[int, int]:
    """Return device and inode, which differ between successive files of one fd. Raises: OSError (EBADF)."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def mask_of(filters: dict[int, Registration]) -> int:
    """Return the events that epoll watches for the filters of an fd."""
    mask = 0
    for number, registered in filters.items():
        mask |= 0 if registered.flags & DISABLE else EVENTS[number]
        mask |= EDGES if registered.flags & (CLEAR | DISABLE) else 0
    return mask


open_queues: weakref.WeakSet[kqueue] = weakref.WeakSet()


class kqueue:
    """An epoll object, and the registered filters of each fd."""

    def __init__(self) -> None:
        self.epoll = epoll()
        self.registered: dict[int, dict[int, Registration]] = {}
        open_queues.add(self)

    @property
    def closed(self) -> bool:
        return self.epoll.closed

    def fileno(self) -> int:
        if self.closed:
            raise ValueError("I/O operation on closed kqueue object")
        return self.epoll.fileno()

    def close(self) -> None:
        self.epoll.close()

    def control(
        self, changelist: Iterable[kevent] | None, maxevents: int, timeout: float | None = None, /
    ) -> list[kevent]:
        """Make changes, then wait for events. Raises: OSError for a change, if there is no room for error events."""
        self.fileno()
        if maxevents < 0:
            raise ValueError(f"Length of eventlist must be 0 or positive, got {maxevents}")
        if timeout is not None and timeout < 0:
            raise ValueError("timeout must be positive or None")
        failed: list[kevent] = []
        for asked in changelist or ():
            try:
                self.change(asked)
            except OSError as error:
                if len(failed) == maxevents:
                    raise
                failed.append(kevent(asked.ident, asked.filter, ERROR, 0, error.errno or 0, asked.udata))
        if failed or not maxevents:
            return failed
        found = [event for fd, events in self.epoll.poll(timeout, maxevents) for event in self.events(fd, events)]
        return found[:maxevents]

    def change(self, asked: kevent) -> None:
        """Make a change. Raises: OSError."""
        if asked.filter not in EVENTS:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fd, flags = asked.ident, asked.flags
        file = file_of(fd)
        filters = {number: of for number, of in self.registered.get(fd, {}).items() if self.holds(fd, of.file == file)}
        former = filters.get(asked.filter)
        if former is None and not flags & ADD:
            self.keep(fd, filters)
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        known = bool(filters)
        if flags & DELETE:
            del filters[asked.filter]
        else:
            kept = flags & (ONESHOT | CLEAR) if former is None or flags & ADD else former.flags & (ONESHOT | CLEAR)
            filters[asked.filter] = Registration(kept | flags & DISABLE, asked.udata, file)
        self.watch(fd, filters, known)
        self.keep(fd, filters)

    def holds(self, fd: int, same_file: bool) -> bool:
        """Return whether epoll still watches the registered file under this fd."""
        try:
            self.epoll.modify(fd, mask_of(self.registered[fd]))
        except FileNotFoundError:
            return False
        return same_file

    def keep(self, fd: int, filters: dict[int, Registration]) -> None:
        if filters:
            self.registered[fd] = filters
        else:
            self.registered.pop(fd, None)

    def watch(self, fd: int, filters: dict[int, Registration], known: bool) -> None:
        """Pass the filters of an fd on to epoll. Raises: OSError."""
        if not filters:
            self.epoll.unregister(fd)
        elif known:
            self.epoll.modify(fd, mask_of(filters))
        else:
            try:
                self.epoll.register(fd, mask_of(filters))
            except PermissionError:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from None

    def events(self, fd: int, found: int) -> Iterator[kevent]:
        """Yield the events of an fd, none after its close: epoll keeps a file that is still open under another fd."""
        filters = self.registered.get(fd, {})
        for number, registered in list(filters.items()):
            try:
                same = registered.file == file_of(fd)
            except OSError:
                same = False
            if not same or registered.flags & DISABLE or not found & (EVENTS[number] | HANG_UP):
                continue
            if registered.flags & ONESHOT:
                self.change(kevent(fd, number, DELETE))
            ended = found & (HANG_UP | (END if number == READ else 0))
            yield kevent(fd, number, registered.flags | (EOF if ended else 0), udata=registered.udata)


def close_in_child() -> None:
    """Close the queues in a forked child, as the system does."""
    for each in list(open_queues):
        each.close()


os.register_at_fork(after_in_child=close_in_child)
for name in [name for name in dir(select) if name.lower().startswith("epoll")]:
    delattr(select, name)
for name, value in {**NAMES, "kqueue": kqueue, "kevent": kevent}.items():
    setattr(select, name, value)
