"""The sockets of a simulation: their addresses, options and errors are those of real ones."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import threading
import time

import pytest

from dhaga.simulation import Simulation


def test_a_connect_that_must_not_wait_says_when_it_is_done() -> None:
    with Simulation(1), socket.create_server(("127.0.0.1", 80)), socket.socket() as sock:
        sock.setblocking(False)
        assert sock.connect_ex(("127.0.0.1", 80)) == errno.EINPROGRESS
        assert sock.connect_ex(("127.0.0.1", 80)) == errno.EALREADY
        assert select.select([], [sock], [], 0) == ([], [], [])
        assert select.select([], [sock], [], 5) == ([], [sock], [])
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        assert sock.connect_ex(("127.0.0.1", 80)) == errno.EISCONN


def test_a_refused_connect_says_so_by_so_error() -> None:
    with Simulation(1), socket.socket() as sock:
        sock.setblocking(False)
        sock.connect_ex(("127.0.0.1", 80))
        select.select([], [sock], [], 5)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def test_a_port_is_bound_once_and_free_after_the_close() -> None:
    with Simulation(1), socket.create_server(("", 80)):
        with pytest.raises(OSError, match="Address already in use"):
            socket.create_server(("", 80))
        with pytest.raises(OSError, match="Cannot assign"):
            socket.create_server(("10.9.9.9", 81))
        with socket.socket() as sock, pytest.raises(OSError, match="not connected"):
            sock.getpeername()


def test_a_dup_and_a_detached_fd_are_the_same_connection() -> None:
    with Simulation(1), socket.create_server(("", 80)) as listener:
        sock = socket.create_connection(("localhost", 80))
        peer, _ = listener.accept()
        copy = sock.dup()
        assert copy.getpeername() == sock.getpeername() == ("127.0.0.1", 80)
        sock.close()
        with socket.socket(fileno=copy.detach()) as again:
            assert again.family == socket.AF_INET
            again.sendall(b"ping")
            assert peer.recv(10) == b"ping"
        assert peer.recv(10) == b""
        peer.close()


def test_a_close_before_everything_was_read_resets_the_peer() -> None:
    with Simulation(1), socket.create_server(("", 80)) as listener:
        with socket.create_connection(("localhost", 80)) as sock:
            peer, _ = listener.accept()
            sock.sendall(b"ping")
            time.sleep(1)
            peer.close()
            with pytest.raises(ConnectionResetError):
                sock.recv(10)


def test_options_are_kept() -> None:
    with Simulation(1), socket.socket() as sock:
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM


def test_a_closed_listener_resets_what_it_has_not_accepted() -> None:
    with Simulation(1):
        listener = socket.create_server(("", 80))
        with socket.create_connection(("localhost", 80)) as sock:
            threading.Timer(1, listener.close).start()
            with pytest.raises(ConnectionResetError):
                sock.recv(10)


def break_off(client: socket.socket) -> None:
    """Close a connection by a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("simulated", [False, True])
def test_the_peer_of_a_connection_that_was_reset_is_not_known(simulated: bool) -> None:
    with Simulation(1) if simulated else contextlib.nullcontext(), socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            break_off(client)
            assert select.select([peer], [], [], 5) == ([peer], [], [])
            with pytest.raises(OSError, match="not connected"):
                peer.getpeername()
            with pytest.raises(ConnectionResetError):
                peer.recv(1)
