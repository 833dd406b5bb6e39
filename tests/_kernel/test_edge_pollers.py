"""Edge-triggered pollers: what they register."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.fast.accelerator import fast_paths
from dhaga._kernel.run.edge_pollers import EdgeTriggered, Epoll
from dhaga._kernel.run.fd_watch import READ, WRITE, FdWatcher
from dhaga.testing import settle, virtual_clock
from tests.kit.pollers import has_epoll, has_kqueue, poller_here


class Counting:
    """An epoll that notes the changes of its registrations."""

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
        if isinstance(poller, Epoll):  # the same at a recheck: the fd's number is unknown by then
            watcher.watched, watcher.readable = True, False
            poller.to_recheck.append(watcher)
            poller.recheck()
            assert not poller.to_recheck
        poller.watchers = dict(poller.watchers)
        if isinstance(poller, EdgeTriggered):  # the fd is still in the poller's set
            poller.unwatch(one.fileno(), READ)


@has_kqueue
@pytest.mark.skipif(not isinstance(fast_paths, ModuleType), reason="a look from Python releases the interpreter lock")
def test_a_kqueue_without_an_event_is_not_asked() -> None:
    asked: list[int] = []

    class Asked:
        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def control(self, changes: Any, most: int, timeout: float) -> Any:
            found = self.real.control(changes, most, timeout)
            if not changes:
                asked.append(len(found))
            return found

    one, other = socket.socketpair()
    with one, other:
        reader = dhaga.spawn(one.recv, 10)
        settle()
        poller = poller_here()
        poller.kqueue = Asked(poller.kqueue)
        poller.poll()
        assert not asked
        other.send(b"x")
        poller.poll()
        assert len(asked) == 1 and reader.result(30) == b"x"
        poller.kqueue = poller.kqueue.real


def test_what_a_short_read_leaves_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of a Unix socket ends where descriptors were passed, though more bytes have come."""
    monkeypatch.delenv("DHAGA_POLLER", raising=False)
    one, other = socket.socketpair()
    with virtual_clock(), one, other:
        first = dhaga.spawn(one.recv, 10)
        settle()
        socket.send_fds(other, [b"with"], [other.fileno()])
        other.send(b"after")
        assert first.result(30) == b"with"
        assert dhaga.spawn(one.recv, 10).result(30) == b"after"
        settle()
        assert not poller_here().to_recheck
