"""The functions of posix.py: fds, sockets' limits, and the end by a Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import struct

import pytest

from tests.kit.scripts import run

posix = pytest.importorskip("dhaga._kernel.platform.posix", reason="Windows has its own file", exc_type=ImportError)


def test_a_process_ends_by_ctrl_c_as_one_of_pythons_does() -> None:
    outcome = run("from dhaga._kernel.platform import posix\nposix.end_by_ctrl_c()\nprint('still there')")
    assert (outcome.status, outcome.out) == (-signal.SIGINT, "")


def test_an_fd_is_known_for_what_it_was_opened() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb"):
        assert (posix.access_mode(reader), posix.access_mode(writer)) == (os.O_RDONLY, os.O_WRONLY)
    one, other = socket.socketpair()
    with one, other:
        assert posix.access_mode(one.fileno()) == os.O_RDWR


def test_a_socket_has_input_once_its_peer_has_sent() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert not posix.has_input(one.fileno())
        other.send(b"x")
        assert posix.has_input(one.fileno())


def test_a_limit_is_a_timeval_and_zero_is_none() -> None:
    assert posix.seconds_of_limit(struct.pack("ll", 2, 500_000)) == 2.5
    assert posix.seconds_of_limit(bytes(posix.LIMIT_SIZE)) is None


def test_signals_are_blocked_in_the_calling_thread_alone_until_its_mask_is_set_again() -> None:
    former = posix.signal_mask()
    posix.block_signals({signal.SIGUSR2})
    try:
        assert posix.signal_mask() == former | {signal.SIGUSR2}
    finally:
        posix.set_signal_mask(former)
    assert posix.signal_mask() == former
