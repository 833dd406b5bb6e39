"""MSG_DONTWAIT, beside the standard socket in a thread: timeouts, and errors of a connection that was reset."""

from __future__ import annotations

import errno
import socket as standard
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from tests.kit.sockets import LOCAL, fill

NOW = int(getattr(standard, "MSG_DONTWAIT", 0))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the order of a connection's errors is Linux's")

SENDS: dict[str, Callable[[Any, bytes, int], Any]] = {
    "send": lambda sock, data, flags: sock.send(data, flags),
    "send of a bytearray": lambda sock, data, flags: sock.send(bytearray(data), flags),
    "sendall": lambda sock, data, flags: sock.sendall(data, flags),
    "sendmsg": lambda sock, data, flags: sock.sendmsg([data], [], flags),
    "sendto": lambda sock, data, flags: sock.sendto(data, flags, ("127.0.0.1", 9)),
}
RECEIVES: dict[str, Callable[[Any], Any]] = {
    "recv": lambda sock: sock.recv(6, NOW),
    "recv, MSG_PEEK": lambda sock: sock.recv(6, NOW | standard.MSG_PEEK),
    "recv, MSG_WAITALL": lambda sock: sock.recv(6, NOW | standard.MSG_WAITALL),
    "recv_into": lambda sock: sock.recv_into(bytearray(6), 0, NOW),
    "recvfrom": lambda sock: sock.recvfrom(6, NOW),
    "recvfrom_into": lambda sock: sock.recvfrom_into(bytearray(6), 0, NOW),
    "recvmsg": lambda sock: sock.recvmsg(6, 0, NOW),
    "recvmsg_into": lambda sock: sock.recvmsg_into([bytearray(6)], 0, NOW),
}


def said(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OSError as error:
        return type(error), error.errno


def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call(*args)))
    thread.start()
    thread.join()
    return results[0]


def connected(module: Any) -> tuple[Any, Any]:
    with module.create_server(LOCAL) as listener:
        return module.create_connection(listener.getsockname()), listener.accept()[0]


@pytest.mark.parametrize("timeout", [None, 0.02, 0])
@pytest.mark.parametrize("name", RECEIVES)
def test_a_receive_without_data_waits_for_a_timeout_alone(name: str, timeout: float | None) -> None:
    def receives(module: Any) -> list[Any]:
        sock, peer = module.socketpair()
        with sock, peer:
            sock.settimeout(timeout)
            empty = said(lambda: RECEIVES[name](sock))
            peer.send(b"abc")
            return [empty, said(lambda: RECEIVES[name](sock))]

    expected = in_thread(receives, standard)
    assert expected[0][0] is (TimeoutError if timeout else BlockingIOError)
    assert dhaga.spawn(receives, socket).result(30) == expected


@pytest.mark.parametrize("timeout", [None, 0.02, 0])
@pytest.mark.parametrize("name", SENDS)
def test_a_send_without_room_waits_for_a_timeout_alone(name: str, timeout: float | None) -> None:
    def sends(module: Any) -> Any:
        sock, peer = connected(module)
        with sock, peer:
            fill(sock)
            sock.settimeout(timeout)
            return said(lambda: SENDS[name](sock, b"more", NOW))

    expected = in_thread(sends, standard)
    assert expected[0] is (TimeoutError if timeout else BlockingIOError)
    assert dhaga.spawn(sends, socket).result(30) == expected


def reset(sock: Any, peer: Any) -> None:
    peer.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def leave_unread(sock: Any, peer: Any) -> None:
    sock.send(b"unread")
    peer.recv(1, standard.MSG_PEEK)
    peer.close()


def fill_and_reset(sock: Any, peer: Any) -> None:
    fill(sock)
    reset(sock, peer)


def end_twice(sock: Any, peer: Any) -> None:
    """End the stream before the reset: then Linux reports EPIPE instead of ECONNRESET."""
    peer.shutdown(standard.SHUT_WR)
    reset(sock, peer)


ENDS = {"reset": reset, "unread data": leave_unread, "full": fill_and_reset, "end and reset": end_twice}


@pytest.mark.parametrize("timeout", [None, 20, 0])
@pytest.mark.parametrize("flags", [0, NOW, NOW | standard.MSG_NOSIGNAL])
@pytest.mark.parametrize("name", SENDS)
def test_the_errors_of_a_reset_connection_come_in_the_standard_order(
    name: str, flags: int, timeout: float | None
) -> None:
    def sends(module: Any, end: str, reads: bool) -> list[Any]:
        sock, peer = connected(module)
        with sock, peer:
            if reads:  # the socket is registered with the poller
                peer.send(b"x")
                sock.recv(1)
            ENDS[end](sock, peer)
            sock.settimeout(timeout)
            errors = [said(lambda: SENDS[name](sock, b"data", flags)) for _ in range(3)]
            return [*errors, said(lambda: sock.recv(1, flags))]

    for end in ENDS:
        for reads in False, True:
            expected = in_thread(sends, standard, end, reads)
            first = errno.EPIPE if end == "end and reset" else errno.ECONNRESET
            assert [number for _, number in expected[:3]] == [first, errno.EPIPE, errno.EPIPE]
            assert dhaga.spawn(sends, socket, end, reads).result(30) == expected, end


def test_a_reader_that_parks_gets_the_error_of_a_reset_before_a_writer() -> None:
    sock, peer = connected(socket)
    with sock, peer:
        reader = dhaga.spawn(said, lambda: sock.recv(1))
        dhaga.sleep(0)
        reset(sock, peer)
        assert reader.result(30) == (ConnectionResetError, errno.ECONNRESET)
        assert said(lambda: sock.send(b"x", NOW)) == (BrokenPipeError, errno.EPIPE)
