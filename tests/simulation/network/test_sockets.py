"""The sockets of a simulation: their addresses, options and errors are those of real ones."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from dhaga.simulation import Simulation
from dhaga.simulation.network._sockets import end_of


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


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_is_free_as_soon_as_close_returns(kind: int) -> None:
    with Simulation(1):
        for _ in range(3):
            sock = socket.socket(socket.AF_INET, kind)
            sock.bind(("127.0.0.1", 80))
            if kind == socket.SOCK_STREAM:
                sock.listen()
            sock.close()


def test_a_receive_ends_after_the_time_limit_of_the_socket() -> None:
    with Simulation(1), socket.create_server(("127.0.0.1", 80)), socket.create_connection(("127.0.0.1", 80)) as sock:
        limit = struct.pack("ll", 3, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, len(limit)) == limit
        began_at = time.monotonic()
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        assert time.monotonic() - began_at == pytest.approx(3)


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


@contextlib.contextmanager
def reset_by_peer(simulated: bool) -> Iterator[socket.socket]:
    """Yield a socket whose connection was reset, in a simulation or for real."""
    with Simulation(1) if simulated else contextlib.nullcontext(), socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
        with peer:
            break_off(client)
            assert select.select([peer], [], [], 5) == ([peer], [], [])
            yield peer


@pytest.mark.parametrize("simulated", [False, True])
def test_the_peer_of_a_connection_that_was_reset_is_not_known(simulated: bool) -> None:
    with reset_by_peer(simulated) as sock:
        with pytest.raises(OSError, match="not connected"):
            sock.getpeername()
        with pytest.raises(ConnectionResetError):
            sock.recv(1)


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("call", ["send", "sendall", "sendmsg"])
@pytest.mark.parametrize("size", [1, 100_000])
def test_the_first_send_after_a_reset_tells_of_it_and_later_ones_of_a_broken_pipe(
    simulated: bool, call: str, size: int
) -> None:
    data: Any = [b"x" * size] if call == "sendmsg" else b"x" * size
    with reset_by_peer(simulated) as sock:
        for error in (errno.ECONNRESET, errno.EPIPE, errno.EPIPE):
            assert errno_of(getattr(sock, call), data) == error
        assert sock.recv(1) == b""


def test_bytes_for_a_socket_that_reads_no_more_do_not_reset_the_connection() -> None:
    with Simulation(1), socket.create_server(("127.0.0.1", 80)) as listener:
        with socket.create_connection(("127.0.0.1", 80)) as sock, listener.accept()[0] as peer:
            peer.shutdown(socket.SHUT_RD)
            sock.sendall(b"late")
            time.sleep(1)
            peer.sendall(b"answer")
            assert sock.recv(10) == b"answer"


def test_a_closed_datagram_socket_gets_nothing_and_frees_its_port() -> None:
    address = ("127.0.0.1", 5000)
    with Simulation(1) as world, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        closed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        closed.bind(address)
        sender.sendto(b"unread", address)
        time.sleep(1)
        closed.close()
        sender.sendto(b"lost", address)
        time.sleep(1)
        assert len(world.network.ends) == 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(address)
            for data in (b"x", b"", b"y"):
                sender.sendto(data, address)
            assert sorted(again.recvfrom(10)[0] for _ in range(3)) == [b"", b"x", b"y"]


def test_a_datagram_sent_before_the_close_arrives() -> None:
    with Simulation(1), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 5000))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", 5000))
            receiver.sendto(b"unread", sender.getsockname())
            time.sleep(1)
            sender.send(b"x")
        assert receiver.recvfrom(10)[0] == b"x"


@pytest.mark.parametrize("call", ["sendto", "sendmsg"])
def test_a_datagram_for_a_real_address_leaves_if_it_may(call: str) -> None:
    address = ("192.0.2.1", 9)  # of TEST-NET-1: a machine without a route to it raises OSError
    with Simulation(1, allow=["network"]), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        with contextlib.suppress(OSError):
            sent = sender.sendto(b"x", address) if call == "sendto" else sender.sendmsg([b"x"], [], 0, address)
            assert sent == 1
        assert end_of(sender) is None


def new() -> socket.socket:
    return socket.socket()


def refused() -> socket.socket:
    sock = new()
    with pytest.raises(ConnectionRefusedError):
        sock.connect(("127.0.0.1", 9))
    return sock


def never_waiting() -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    return sock


RECEIVES: list[Callable[[socket.socket], object]] = [
    lambda sock: sock.recv(1),
    lambda sock: sock.recv(1, socket.MSG_PEEK),
    lambda sock: sock.recv(9, socket.MSG_WAITALL),
    lambda sock: sock.recv_into(bytearray(1)),
    lambda sock: sock.recvfrom(1),
    lambda sock: sock.recvfrom_into(bytearray(1)),
    lambda sock: sock.recvmsg(1),
    lambda sock: sock.recvmsg_into([bytearray(1)]),
]

SENDS: list[Callable[[socket.socket], object]] = [
    lambda sock: sock.send(b"x"),
    lambda sock: sock.sendall(b"x"),
    lambda sock: sock.sendmsg([b"x"]),
    lambda sock: sock.sendto(b"x", ("127.0.0.1", 9)),
]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("make", [new, refused, never_waiting, lambda: socket.create_server(("", 80))])
def test_a_stream_that_is_not_connected_neither_receives_nor_sends(
    make: Callable[[], socket.socket], in_thread: bool
) -> None:
    def use_each() -> None:
        for call in RECEIVES + SENDS:
            with make() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                assert errno_of(call, sock) == (errno.ENOTCONN if call in RECEIVES else errno.EPIPE)

    with Simulation(1):
        if in_thread:
            thread = threading.Thread(target=use_each)
            thread.start()
            thread.join()
        else:
            use_each()


@pytest.mark.parametrize("make", [new, refused, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)])
def test_a_socket_that_is_not_connected_cannot_be_shut_down(make: Callable[[], socket.socket]) -> None:
    with Simulation(1), make() as sock:
        for how in (socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR):
            assert errno_of(sock.shutdown, how) == errno.ENOTCONN


def test_a_listener_that_is_shut_down_for_sending_still_accepts() -> None:
    with Simulation(1), socket.create_server(("127.0.0.1", 80)) as listener:
        listener.shutdown(socket.SHUT_WR)
        with socket.create_connection(("127.0.0.1", 80)), listener.accept()[0]:
            pass


@pytest.mark.parametrize("simulated", [False, True])
def test_the_error_of_a_connect_is_told_once_and_then_the_socket_is_as_new(simulated: bool) -> None:
    with Simulation(1) if simulated else contextlib.nullcontext():
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()  # free from now on
        for tell in (
            lambda sock: sock.connect_ex(address),
            lambda sock: sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
            lambda sock: errno_of(sock.recv, 1),
        ):
            with never_waiting() as sock:
                assert sock.connect_ex(address) == errno.EINPROGRESS
                assert select.select([], [sock], [], 10)[1]
                assert tell(sock) == errno.ECONNREFUSED
                assert errno_of(sock.send, b"x") == errno.EPIPE


def errno_of(call: Callable[..., object], *arguments: object) -> int | None:
    with pytest.raises(OSError) as caught:
        call(*arguments)
    return caught.value.errno


@pytest.mark.parametrize("simulated", [False, True])
def test_a_connection_that_was_reset_cannot_be_shut_down(simulated: bool) -> None:
    with reset_by_peer(simulated) as sock:
        assert errno_of(sock.shutdown, socket.SHUT_WR) == errno.ENOTCONN


def test_a_refused_socket_can_be_connected_again() -> None:
    with Simulation(1), refused() as sock, socket.create_server(("127.0.0.1", 9)) as listener:
        assert sock.getsockname() == ("0.0.0.0", 32768)
        sock.connect(("127.0.0.1", 9))
        peer, seen = listener.accept()
        with peer:
            assert seen == sock.getsockname() == ("127.0.0.1", 32768)
            sock.sendall(b"ping")
            assert peer.recv(10) == b"ping"


@pytest.mark.parametrize("simulated", [False, True])
def test_a_datagram_is_bytes_for_a_port_above_0(simulated: bool) -> None:
    with Simulation(1) if simulated else contextlib.nullcontext():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            data: Any
            for data in ("text", 5):
                with pytest.raises(TypeError, match="a bytes-like object is required"):
                    sock.sendto(data, ("127.0.0.1", 9))
            assert errno_of(sock.sendto, b"x", ("127.0.0.1", 0)) == errno.EINVAL
            assert sock.sendto(memoryview(b"1234").cast("I"), ("127.0.0.1", 9)) == 4


@contextlib.contextmanager
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A simulated connection. Yields: the client's end and the server's."""
    with Simulation(1, preempt=None), socket.create_server(("127.0.0.1", 80)) as listener:
        with socket.create_connection(("127.0.0.1", 80)) as client, listener.accept()[0] as server:
            yield client, server


def test_reads_after_the_end_stay_at_the_end_even_if_a_send_is_answered_by_a_reset() -> None:
    with connection() as (client, server):
        server.close()
        time.sleep(1)
        assert client.send(b"late") == 4
        time.sleep(1)
        assert client.recv(1) == client.recv(1) == b""
        assert errno_of(client.send, b"x") == errno.EPIPE
        assert errno_of(client.getpeername) == errno_of(client.shutdown, socket.SHUT_WR) == errno.ENOTCONN


def test_the_error_of_a_reset_is_told_once() -> None:
    with connection() as (client, server):
        break_off(server)
        time.sleep(1)
        error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert (error, client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) == (errno.ECONNRESET, 0)
        assert client.recv(1) == b""


def test_a_connection_that_ended_in_both_directions_has_its_own_name_and_no_peer() -> None:
    with connection() as (client, server):
        for sock in (client, server):
            sock.shutdown(socket.SHUT_WR)
            time.sleep(1)
        for sock, port in ((client, 32768), (server, 80)):
            assert sock.recv(1) == b""
            assert sock.getsockname() == ("127.0.0.1", port)
            assert errno_of(sock.getpeername) == errno_of(sock.shutdown, socket.SHUT_RD) == errno.ENOTCONN


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_closed_socket_has_a_bad_fd(kind: int) -> None:
    address = ("127.0.0.1", 80)
    with Simulation(1):
        sock = socket.socket(socket.AF_INET, kind)
        sock.close()
        for call in (sock.bind, sock.connect, partial(sock.sendto, b"x")):
            assert errno_of(call, address) == errno.EBADF
        assert errno_of(sock.getsockname) == errno_of(sock.shutdown, socket.SHUT_RD) == errno.EBADF


OPTIONS: list[tuple[int, int, object]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 7),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, struct.pack("i", 1)),
    (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5)),
    (socket.SOL_SOCKET, socket.SO_TYPE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, True),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 0),
    (socket.IPPROTO_TCP, 9999, 1),
    (77, 1, 1),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1.5),
    (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1 << 40),
]


@pytest.mark.parametrize(("level", "option", "value"), OPTIONS)
def test_options_have_the_values_and_the_errors_of_a_real_socket(level: int, option: int, value: Any) -> None:
    def tried(call: Callable[[], object]) -> object:
        try:
            return call()
        except (OSError, TypeError, OverflowError) as error:
            return type(error), str(error)

    found = []
    for simulated in (False, True):
        with Simulation(1) if simulated else contextlib.nullcontext(), socket.socket() as sock:
            found.append([
                tried(lambda: sock.getsockopt(level, option)),
                tried(lambda: sock.setsockopt(level, option, value)),
                tried(lambda: sock.getsockopt(level, option)),
                tried(lambda: sock.getsockopt(level, option, 8)),
                tried(lambda: sock.getsockopt(level, option, 5000)),
            ])  # fmt: skip
    assert found[0] == found[1]
