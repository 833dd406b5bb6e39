"""Timeouts of sockets: default ones, wrong ones, and those of calls that take many steps."""

from __future__ import annotations

import errno
import os
import socket as standard
import threading
import time
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle, virtual_clock
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


TIMEOUTS = [None, 0, 0.0, 5, 2.5, 1e-7, 1e-10, 1e7, True, -1, float("nan"), float("inf"), 10**30, "1"]


def timeouts_of(sock: Any, before: float | None, after: Any) -> tuple[object, ...]:
    """Set two timeouts. Returns: the error of the second and what the socket says then."""
    error = None
    sock.settimeout(before)
    try:
        sock.settimeout(after)
    except (ValueError, TypeError, OverflowError, OSError) as raised:
        error = repr(raised)
    return error, sock.gettimeout(), sock.getblocking(), type(sock.gettimeout())


@pytest.mark.parametrize("before", [None, 0, 5])
@pytest.mark.parametrize("after", TIMEOUTS)
def test_a_timeout_is_what_the_standard_makes_of_it_whatever_was_set_before(before: float | None, after: Any) -> None:
    with socket.socket() as ours, standard.socket() as theirs:
        assert timeouts_of(ours, before, after) == timeouts_of(theirs, before, after)


@pytest.mark.parametrize("timeout", [None, 0, 5])
@pytest.mark.parametrize("before", [None, 0, 5])
def test_a_timeout_sets_the_mode_of_an_fd_from_elsewhere(timeout: float | None, before: float | None) -> None:
    modes = []
    for module in (socket, standard):
        one, other = standard.socketpair()
        one.settimeout(before)
        with other, module.socket(fileno=one.detach()) as sock:
            for _ in range(2):
                sock.settimeout(timeout)
                # With a timeout of ours the fd is non-blocking, as the standard's.
                modes.append(os.get_blocking(sock.fileno()))
    assert modes == [timeout is None] * 4


@pytest.mark.parametrize("timeout", [None, 0, 5])
def test_a_closed_socket_takes_no_timeout(timeout: float | None) -> None:
    one, other = socket.socketpair()
    one.settimeout(1)
    for sock in (one, other):
        sock.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            sock.settimeout(timeout)


def test_a_dhagas_read_without_waiting_finds_nothing_something_and_the_end() -> None:
    def fn() -> None:
        one, other = socket.socketpair()
        one.settimeout(0)
        buffer = bytearray(8)
        for read in (lambda: one.recv(8), lambda: buffer[: one.recv_into(buffer)]):
            with pytest.raises(BlockingIOError) as raised:
                read()
            assert raised.value.errno == errno.EAGAIN
            other.send(b"x")
            assert read() == b"x"
        one.settimeout(None)
        reader = dhaga.spawn(one.recv, 8)
        settle()
        assert reader.state == "WAITING"
        other.send(b"y")
        assert reader.result() == b"y"
        one.settimeout(0)
        other.close()
        assert one.recv(8) == b"" and one.recv_into(buffer) == 0
        one.close()

    dhaga.spawn(fn).result()


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
    assert 0.04 <= outcome[0] < 30 and outcome[1] == b"x"  # type: ignore[operator]
