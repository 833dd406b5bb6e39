"""The calls that wait for several fds, as functions with the same parameters."""

from __future__ import annotations

import select as standard
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dhaga import select, socket
from tests.kit.pollers import has_epoll, has_kqueue

has_poll = pytest.mark.skipif(not hasattr(standard, "poll"), reason="this platform has no poll")


def by_select(fd: Any, timeout: float | None) -> bool:
    return select.select([fd], [], [], timeout) == ([fd], [], [])


def by_poll(fd: Any, timeout: float | None) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def by_epoll(fd: Any, timeout: float | None) -> bool:
    with select.epoll() as epoll:
        epoll.register(fd, select.EPOLLIN)
        return bool(epoll.poll(timeout))


def by_kqueue(fd: Any, timeout: float | None) -> bool:
    kqueue = select.kqueue()
    try:
        change = select.kevent(fd, select.KQ_FILTER_READ, select.KQ_EV_ADD)
        return bool(kqueue.control([change], 1, timeout))
    finally:
        kqueue.close()


WAYS = [
    by_select,
    pytest.param(by_poll, marks=has_poll),
    pytest.param(by_epoll, marks=has_epoll),
    pytest.param(by_kqueue, marks=has_kqueue),
]


every_way = pytest.mark.parametrize("waits", WAYS)


Waits = Callable[[Any, "float | None"], bool]


@contextmanager
def pair() -> Iterator[tuple[Any, Any]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other
