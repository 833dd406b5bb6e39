"""Look-ups of SO_RCVTIMEO and SO_SNDTIMEO. How calls keep them: ``tests/scenarios/test_layers_of_a_primitive.py``."""

from __future__ import annotations

import os
import socket
import struct

import pytest

import dhaga.socket
from dhaga._iowait.kernel_limits import limits_of, limits_of_fd
from dhaga._kernel.run.fd_watch import FdWatcher


def limited(sock: socket.socket, option: int, seconds: int, microseconds: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, microseconds))


def test_the_limits_of_a_socket_are_found_by_object_and_by_number() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert limits_of(one) == limits_of_fd(one.fileno()) == (None, None)
        limited(one, socket.SO_RCVTIMEO, 2, 500_000)
        limited(one, socket.SO_SNDTIMEO, 60, 0)
        assert limits_of(one) == limits_of_fd(one.fileno()) == (2.5, 60.0)
        assert limits_of(other) == (None, None)


def test_an_fd_that_is_no_socket_has_no_limits() -> None:
    reader, writer = os.pipe()
    try:
        assert limits_of_fd(reader) == (None, None)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_closed_socket_has_none() -> None:
    sock = socket.socket()
    sock.close()
    assert limits_of(sock) == (None, None)


def test_a_socket_without_limits_keeps_the_watcher_of_the_fast_paths() -> None:
    one, other = dhaga.socket.socketpair()
    with one, other:
        reading = dhaga.spawn(one.recv, 1)
        dhaga.sleep(0)
        (watcher,) = one.watchers_.values()
        assert type(watcher) is FdWatcher
        limited(one, socket.SO_RCVTIMEO, 0, 1000)
        assert type(watcher) is not FdWatcher
        other.send(b"x")
        assert reading.result() == b"x"  # of a wait that began before
        with pytest.raises(BlockingIOError):
            one.recv(1)
        limited(one, socket.SO_RCVTIMEO, 0, 0)
        assert type(watcher) is FdWatcher
