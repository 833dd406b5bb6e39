"""Timeouts of sockets: default ones, wrong ones, and those of calls that take many steps."""

from __future__ import annotations

import socket as standard
import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import virtual_clock
from tests.kit.sockets import (
    drain,
    fill,
    unix,
)


def test_the_timeout_of_sendall_bounds_the_whole_call() -> None:
    with virtual_clock() as clock, unix() as (one, other):
        one.settimeout(10)
        size = fill(one)
        d = dhaga.spawn(one.sendall, bytes(100 * size))

        def reads_slowly() -> None:
            while d.state != "DONE":
                dhaga.sleep(4)
                drain(other)

        reader = dhaga.spawn(reads_slowly)
        with pytest.raises(TimeoutError):
            d.result()
        assert clock() == 10
        reader.join()


def test_a_timeout_set_by_default_counts_for_new_sockets() -> None:
    standard.setdefaulttimeout(4)
    try:
        with virtual_clock() as clock:
            with socket.socket() as sock:
                assert sock.gettimeout() == sock.timeout == 4 and sock.getblocking()
            one, other = socket.socketpair()
            with one, other, pytest.raises(TimeoutError):
                one.recv(1)
            assert clock() == 4
    finally:
        standard.setdefaulttimeout(None)


@pytest.mark.parametrize("value", [-1, float("nan"), "1"])
def test_a_wrong_timeout_is_refused_and_changes_nothing(value: Any) -> None:
    with socket.socket() as sock:
        sock.settimeout(3)
        with pytest.raises((ValueError, TypeError)):
            sock.settimeout(value)
        assert sock.gettimeout() == 3


def test_a_plain_thread_waits_for_real_and_honours_the_timeout() -> None:
    outcome: list[object] = []

    def thread_code() -> None:
        with unix() as (one, other):
            one.settimeout(0.05)
            began = time.monotonic()
            try:
                one.recv(1)
            except TimeoutError:
                outcome.append(time.monotonic() - began)
            other.send(b"x")
            outcome.append(one.recv(1))

    thread = threading.Thread(target=thread_code)
    thread.start()
    thread.join()
    assert 0.04 <= outcome[0] < 1 and outcome[1] == b"x"  # type: ignore[operator]
