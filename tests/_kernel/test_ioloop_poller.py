"""The portable poller: what it watches."""

from __future__ import annotations

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import open_fds, settle, virtual_clock
from tests.kit.pollers import poller_here


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
