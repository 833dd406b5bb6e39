"""All pollers: the fds that they let go of, and the waiters that they wake."""

from __future__ import annotations

import os

import pytest

import dhaga
from dhaga import socket
from dhaga._kernel.run.edge_pollers import EdgeTriggered
from dhaga._kernel.run.fd_watch import READ, FdWatcher
from dhaga._kernel.run.poller import Poller
from dhaga.testing import open_fds, settle


def test_leaving_lets_go_of_everything(each_poller: str) -> None:
    one, other = socket.socketpair()
    with one, other:
        dhaga.sleep(0)  # main code has its scheduler
        before = open_fds()
        with dhaga.Scheduler() as scheduler:
            d = scheduler.spawn(one.recv, 10)
            other.send(b"x")
            assert d.result(30) == b"x"
            poller: Poller = scheduler.poller
        assert not poller.watchers or isinstance(poller, EdgeTriggered)
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
            assert set(shared.watchers_) == {scheduler}
        reads()
        assert scheduler not in shared.watchers_


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
