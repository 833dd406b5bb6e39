"""Pollers: which is chosen, and what it registers."""

from __future__ import annotations

import os
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.run.fd_watch import READ, WRITE, FdWatcher
from dhaga._kernel.run.poller import EdgeTriggered, Epoll, IOLoopPoller, Poller, new_poller
from dhaga.testing import open_fds, settle, virtual_clock
from tests.kit.pollers import has_epoll, poller_here


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


def drain(sock: Any) -> None:
    sock.setblocking(False)
    try:
        while sock.recv(1 << 20):
            pass
    except BlockingIOError:
        pass


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
        assert type(poller_here()) is IOLoopPoller
    with dhaga.Scheduler() as scheduler:
        assert type(scheduler.poller) is IOLoopPoller


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
            d.result(30)
            fds = {one.fileno(), other.fileno()}
            assert set(poller.watchers) & fds == fds
        assert not set(poller.watchers) & fds
        poller.epoll = counting.real


@has_epoll
def test_writing_is_watched_only_once_somebody_had_to_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        reader = dhaga.spawn(one.recv, 10)
        settle()
        channel = poller_here().watchers[one.fileno()]
        assert channel.interest == READ and channel.watched
        writer = dhaga.spawn(one.sendall, bytes(1 << 22))
        settle()
        assert channel.interest == READ | WRITE
        writer.cancel()
        writer.join()
        other.send(b"x")
        assert reader.result(30) == b"x"
        assert channel.interest == READ | WRITE


def test_the_portable_one_watches_only_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DHAGA_POLLER", "ioloop")
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        before = open_fds()
        for _ in range(3):
            d = dhaga.spawn(one.recv, 10)
            settle()
            assert len(poller_here().watchers) == 1 and len(open_fds() - before) == 1  # its duplicate
            assert one.fileno() not in poller_here().watchers
            other.send(b"x")
            assert d.result(30) == b"x"
            assert not poller_here().watchers and open_fds() == before
        d = dhaga.spawn(one.recv, 10)
        settle()
        d.cancel()
        d.join()
        assert not poller_here().watchers and open_fds() == before


def test_leaving_lets_go_of_everything(each_poller: str) -> None:
    one, other = socket.socketpair()
    with one, other:
        before = open_fds()
        with dhaga.Scheduler() as scheduler:
            d = scheduler.spawn(one.recv, 10)
            other.send(b"x")
            assert d.result(30) == b"x"
            poller: Poller = scheduler.poller
        assert not poller.watchers or isinstance(poller, Epoll)
        assert open_fds() == before


def test_watchers_of_schedulers_that_have_ended_are_dropped(each_poller: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as shared:
        shared.bind(("127.0.0.1", 0))
        shared.settimeout(0.001)

        def reads() -> None:
            with pytest.raises(TimeoutError):
                shared.recv(1)

        for _ in range(3):
            with dhaga.Scheduler() as scheduler:
                scheduler.spawn(reads).result()
            assert set(shared.watchers) == {scheduler}
        reads()
        assert scheduler not in shared.watchers


@has_epoll
def test_a_watcher_that_another_thread_unregisters_at_the_same_time_does_no_harm() -> None:
    class TakenMeanwhile(dict[int, FdWatcher]):
        def pop(self, fd: int, default: Any = None) -> Any:
            super().pop(fd)
            return default

    one, other = socket.socketpair()
    with one, other:
        dhaga.spawn(dhaga.sleep, 0).join()
        scheduler = dhaga.current().scheduler
        poller: Any = scheduler.poller
        watcher = FdWatcher(scheduler, one.fileno())
        poller.register(watcher, READ)
        poller.watchers = TakenMeanwhile(poller.watchers)
        poller.unregister(watcher)
        assert one.fileno() not in poller.watchers
        if isinstance(poller, Epoll):  # the same at a recheck: the number is unknown by then
            watcher.watched, watcher.readable = True, False
            poller.to_recheck.append(watcher)
            poller.recheck()
            assert not poller.to_recheck
        poller.watchers = dict(poller.watchers)
        if isinstance(poller, EdgeTriggered):  # the fd is still in its set
            poller.unwatch(one.fileno(), READ)


@pytest.mark.parametrize("readers", [0, 1])
def test_a_watcher_of_its_own_class_hears_of_its_edges_whoever_waits(readers: int) -> None:
    class Listener(FdWatcher):
        def ready(self, directions: int) -> None:
            heard.append((directions, os.read(self.fd, 1)))

    heard: list[tuple[int, bytes]] = []
    one, other = socket.socketpair()
    with one, other:
        gone = dhaga.spawn(dhaga.sleep, 0)
        gone.join()
        scheduler = dhaga.current().scheduler
        listener = Listener(scheduler, one.fileno())
        listener.readers.update(dict.fromkeys([gone][:readers]))
        scheduler.poller.register(listener, READ)
        other.send(b"x")
        settle()
        listener.close()
    ((directions, data),) = heard
    assert directions & READ and data == b"x"
