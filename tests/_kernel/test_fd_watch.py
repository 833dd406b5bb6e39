"""Watches of fds: the waiters are known, and a close ends the wait."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from typing import Any

import pytest
from tornado.ioloop import IOLoop

import dhaga
from dhaga import socket
from dhaga._kernel.run.fd_watch import FdWatcher, wake_all
from dhaga._kernel.wait.waiter import TIMED_OUT
from dhaga.testing import open_fds, settle, virtual_clock
from tests.kit.pollers import has_epoll, poller_here


def test_it_knows_whether_anybody_waits_for_an_fd(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        assert not poller_here().has_waiters()
        d = dhaga.spawn(one.recv, 10)
        settle()
        assert poller_here().has_waiters()
        other.send(b"x")
        d.result(30)
        assert not poller_here().has_waiters()


def test_it_knows_of_each_object_that_waits_for_a_shared_fd(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        first = dhaga.spawn(one.recv, 1)
        settle()
        other.send(b"x")
        first.result(30)
        # The socket's own watcher has no waiter now, and stays registered.
        me = dhaga.current()
        sharer = FdWatcher(me.scheduler, one.fileno())
        second = dhaga.spawn(lambda: sharer.wait_readable(dhaga.current()))
        settle()
        assert poller_here().has_waiters()
        other.send(b"x")
        assert second.result(30) is not TIMED_OUT
        assert not poller_here().has_waiters()
        sharer.close()


def test_closing_takes_the_fd_off(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), other:
        d = dhaga.spawn(one.recv, 10)
        settle()
        assert len(poller_here().watchers) == 1
        one.close()
        assert not poller_here().watchers
        with pytest.raises(OSError):
            d.result(30)


def test_a_number_that_is_closed_wakes_its_waiter_with_the_error(each_poller: str) -> None:
    with virtual_clock():
        bell, button = os.pipe()
        os.close(bell)
        os.close(button)
        me = dhaga.current()
        channel = FdWatcher(me.scheduler, bell)
        for wait in (channel.wait_readable, channel.wait_writable):
            with pytest.raises(OSError):
                wait(me)
        assert not channel.readers and not channel.writers and not poller_here().watchers


@has_epoll
def test_an_fd_that_cannot_be_watched_wakes_its_waiter_with_the_error(each_poller: str) -> None:
    with virtual_clock(), tempfile.TemporaryFile() as file:
        me = dhaga.current()
        channel = FdWatcher(me.scheduler, file.fileno())
        before = open_fds()
        with pytest.raises(PermissionError):
            channel.wait_readable(me)
        assert not channel.readers and not poller_here().watchers and open_fds() == before


@has_epoll
def test_an_fd_that_could_not_be_watched_does_no_harm_to_the_next(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), tempfile.TemporaryFile() as file, one, other:
        me = dhaga.current()
        with pytest.raises(PermissionError):
            FdWatcher(me.scheduler, file.fileno()).wait_readable(me)
        sender = dhaga.spawn(lambda: (settle(), other.send(b"x")))
        try:
            assert one.recv(10) == b"x"
        finally:
            sender.join()


def test_a_closed_channel_is_not_registered_any_more(each_poller: str) -> None:
    bell, button = os.pipe()
    try:
        with virtual_clock():
            me = dhaga.current()
            channel = FdWatcher(me.scheduler, bell)
            assert channel.wait_readable(me, 1) is TIMED_OUT
            channel.close()
            with pytest.raises(OSError):
                channel.wait_readable(me)
            assert not poller_here().watchers
    finally:
        os.close(bell)
        os.close(button)


@pytest.mark.parametrize("events", [IOLoop.READ | IOLoop.WRITE, IOLoop.READ], ids=["on a wait", "on an event"])
def test_a_channel_closed_by_another_thread_meanwhile_counts_as_watched_no_more(
    events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next waiter would wait for ever."""
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        poller, me = poller_here(), dhaga.current()
        channel = FdWatcher(me.scheduler, one.fileno())
        update = poller.ioloop.update_handler
        closed: list[int] = []

        def update_late(number: int, wanted: int) -> None:
            if wanted == events:
                thread = threading.Thread(target=channel.close)
                thread.start()
                thread.join()
                closed.append(number)
            update(number, wanted)

        def waits(wait: Any) -> str:
            try:
                wait(dhaga.current())
            except OSError as error:
                return errno.errorcode[error.errno or 0]
            return "ready"

        poller.ioloop.update_handler = update_late
        reader = dhaga.spawn(waits, channel.wait_readable)
        settle()
        writer = dhaga.spawn(waits, channel.wait_writable)
        assert (reader.result(), writer.result()) == ("EBADF", "ready" if events == IOLoop.READ else "EBADF")
        assert len(closed) == 1 and not channel.interest and not channel.watched
        assert waits(channel.wait_readable) == waits(channel.wait_writable) == "EBADF"
        settle()
        assert not poller.watchers and not poller.open_duplicates


class Reader:
    """A waiter whose wake adds another waiter."""

    def __init__(self, waiters: dict[Any, None], newcomer: object) -> None:
        self.waiters, self.newcomer = waiters, newcomer
        self.wakes = 0

    def wake_parked(self, error: object = None) -> None:
        self.wakes += 1
        self.waiters[self.newcomer] = None


def test_a_waiter_that_comes_while_the_others_are_woken_stays_and_one_that_has_left_is_not_woken() -> None:
    """An object that shares the fd may be closed in another OS thread."""
    waiters: dict[Any, None] = {}
    first, newcomer = Reader(waiters, "newcomer"), "newcomer"
    leaver = Reader(waiters, newcomer)

    class Leaving(Reader):
        def wake_parked(self, error: object = None) -> None:
            super().wake_parked(error)
            waiters.pop(leaver)

    second = Leaving(waiters, newcomer)
    waiters.update(dict.fromkeys([first, second, leaver]))
    wake_all(waiters)
    assert (first.wakes, second.wakes, leaver.wakes) == (1, 1, 0) and list(waiters) == [newcomer]
