"""Pollers: which is chosen, and what it registers."""

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
from dhaga.kernel import originals
from dhaga.kernel.channel import READ, WRITE, Channel
from dhaga.kernel.poller import Epoll, Poller, Portable, new_poller
from dhaga.testing import open_fds, settle, virtual_clock

has_epoll = pytest.mark.skipif(originals.epoll is None, reason="this platform has no epoll")


class Counting:
    """An epoll that notes what is asked of it."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.asked: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def register(self, fd: int, mask: int) -> None:
        self.asked.append(("register", fd))
        self.real.register(fd, mask)

    def modify(self, fd: int, mask: int) -> None:
        self.asked.append(("modify", fd))
        self.real.modify(fd, mask)

    def unregister(self, fd: int) -> None:
        self.asked.append(("unregister", fd))
        self.real.unregister(fd)


def poller_here() -> Any:
    return dhaga.current().scheduler.poller


def drain(sock: Any) -> None:
    sock.setblocking(False)
    try:
        while sock.recv(1 << 20):
            pass
    except BlockingIOError:
        pass


@pytest.fixture(params=["", "ioloop"])
def each_poller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DHAGA_POLLER", request.param)
    return str(request.param)


@has_epoll
@pytest.mark.parametrize("value", [None, ""])
def test_the_platforms_own_is_chosen_unless_told_otherwise(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    if value is not None:
        monkeypatch.setenv("DHAGA_POLLER", value)
    with virtual_clock():
        assert type(poller_here()) is Epoll and repr(poller_here()) == "<Epoll with 0 fds>"


def test_the_portable_one_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    with virtual_clock():
        assert type(poller_here()) is Portable
    with dhaga.Scheduler() as scheduler:
        assert type(scheduler.poller) is Portable


@pytest.mark.parametrize("value", ["epoll", "IOLOOP", "0", " "])
def test_any_other_name_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", value)
    ioloop: Any = None
    with pytest.raises(ValueError, match="DHAGA_POLLER"):
        new_poller(ioloop, lambda fd, events: None)


@has_epoll
def test_an_fd_is_registered_once_and_edge_triggered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    with virtual_clock(), socket.create_server(("127.0.0.1", 0)) as listener:
        poller = poller_here()
        counting = poller.epoll = Counting(poller.epoll)
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
        counting.asked.clear()

        def echoes() -> None:
            while data := other.recv(100):
                other.sendall(data)

        with one, other:
            d = dhaga.spawn(echoes)
            for n in range(20):
                one.sendall(b"%d" % n)
                assert one.recv(100) == b"%d" % n
            assert counting.asked.count(("register", other.fileno())) == 1
            # connect() had watched the client's fd for writing: reading was added once
            assert sum(fd == one.fileno() for _, fd in counting.asked) == 1
            assert len(counting.asked) == 2
            one.shutdown(socket.SHUT_WR)
            d.result(5)
            fds = {one.fileno(), other.fileno()}
            assert set(poller.channels) & fds == fds
        assert not set(poller.channels) & fds
        poller.epoll = counting.real


@has_epoll
def test_writing_is_watched_only_once_somebody_had_to_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        reader = dhaga.spawn(one.recv, 10)
        settle()
        channel = poller_here().channels[one.fileno()]
        assert channel.interest == READ and channel.watched
        writer = dhaga.spawn(one.sendall, bytes(1 << 22))
        settle()
        assert channel.interest == READ | WRITE
        writer.cancel()
        writer.join()
        other.send(b"x")
        assert reader.result(5) == b"x"
        assert channel.interest == READ | WRITE


def test_the_portable_one_watches_only_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        before = open_fds()
        for _ in range(3):
            d = dhaga.spawn(one.recv, 10)
            settle()
            assert len(poller_here().channels) == 1 and len(open_fds() - before) == 1  # its duplicate
            assert one.fileno() not in poller_here().channels
            other.send(b"x")
            assert d.result(5) == b"x"
            assert not poller_here().channels and open_fds() == before
        d = dhaga.spawn(one.recv, 10)
        settle()
        d.cancel()
        d.join()
        assert not poller_here().channels and open_fds() == before


def test_it_knows_whether_anybody_waits_for_an_fd(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        assert not poller_here().anybody_parked()
        d = dhaga.spawn(one.recv, 10)
        settle()
        assert poller_here().anybody_parked()
        other.send(b"x")
        d.result(5)
        assert not poller_here().anybody_parked()


def test_closing_takes_the_fd_off(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), other:
        d = dhaga.spawn(one.recv, 10)
        settle()
        assert len(poller_here().channels) == 1
        one.close()
        assert not poller_here().channels
        with pytest.raises(OSError):
            d.result(5)


def test_a_number_that_is_closed_wakes_its_waiter_with_the_error(each_poller: str) -> None:
    with virtual_clock():
        bell, button = os.pipe()
        os.close(bell)
        os.close(button)
        me = dhaga.current()
        channel = Channel(me.scheduler, bell)
        for wait in (channel.wait_readable, channel.wait_writable):
            with pytest.raises(OSError):
                wait(me)
        assert not channel.readers and not channel.writers and not poller_here().channels


@has_epoll
def test_an_fd_that_cannot_be_watched_wakes_its_waiter_with_the_error(each_poller: str) -> None:
    with virtual_clock(), tempfile.TemporaryFile() as file:
        me = dhaga.current()
        channel = Channel(me.scheduler, file.fileno())
        before = open_fds()
        with pytest.raises(PermissionError):
            channel.wait_readable(me)
        assert not channel.readers and not poller_here().channels and open_fds() == before


@has_epoll
def test_an_fd_that_could_not_be_watched_does_no_harm_to_the_next(each_poller: str) -> None:
    one, other = socket.socketpair()
    with virtual_clock(), tempfile.TemporaryFile() as file, one, other:
        me = dhaga.current()
        with pytest.raises(PermissionError):
            Channel(me.scheduler, file.fileno()).wait_readable(me)
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
            channel = Channel(me.scheduler, bell)
            with pytest.raises(TimeoutError):
                channel.wait_readable(me, 1)
            channel.close()
            with pytest.raises(OSError):
                channel.wait_readable(me)
            assert not poller_here().channels
    finally:
        os.close(bell)
        os.close(button)


def test_leaving_lets_go_of_everything(each_poller: str) -> None:
    one, other = socket.socketpair()
    with one, other:
        before = open_fds()
        with dhaga.Scheduler() as scheduler:
            d = scheduler.spawn(one.recv, 10)
            other.send(b"x")
            assert d.result(5) == b"x"
            poller: Poller = scheduler.poller
        assert not poller.channels or isinstance(poller, Epoll)
        assert open_fds() == before


@pytest.mark.parametrize("events", [IOLoop.READ | IOLoop.WRITE, IOLoop.READ], ids=["on a wait", "on an event"])
def test_a_channel_closed_by_another_thread_meanwhile_counts_as_watched_no_more(
    events: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one to wait would do so for ever."""
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        poller, me = poller_here(), dhaga.current()
        channel = Channel(me.scheduler, one.fileno())
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
        assert not poller.channels and not poller.duplicates
