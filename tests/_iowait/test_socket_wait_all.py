"""MSG_WAITALL with recvfrom and recvmsg, beside MSG_PEEK, MSG_DONTWAIT, limits and resets.

That of recv alone is in tests/test_socket_stream.py.
"""

from __future__ import annotations

import array
import errno
import os
import socket as standard
import struct
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle
from tests.kit.sockets import LOCAL, caught, ends_within

ALL = int(standard.MSG_WAITALL)
BUFFERS = bytearray(2), bytearray(0), array.array("H", [0])


def recvfrom_into(sock: Any) -> Any:
    buffer = bytearray(6)
    return sock.recvfrom_into(buffer, 4, ALL)[0], bytes(buffer)


def recvmsg_into(sock: Any) -> Any:
    return *sock.recvmsg_into(BUFFERS, 100, ALL)[:2], *map(bytes, BUFFERS)


CALLS: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "recvfrom": (lambda sock: sock.recvfrom(4, ALL)[0], b"abcd", b"e"),
    "recvfrom_into": (recvfrom_into, (4, b"abcd\0\0"), (1, b"e\0\0\0\0\0")),
    "recvmsg": (lambda sock: sock.recvmsg(4, 100, ALL)[:2], (b"abcd", []), (b"e", [])),
    "recvmsg_into": (recvmsg_into, (4, [], b"ab", b"", b"cd"), (1, [], b"eb", b"", b"cd")),
}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no recvmsg")


@pytest.mark.parametrize("name", CALLS)
def test_they_park_until_everything_is_there_or_the_stream_ends(name: str) -> None:
    call, whole, end = CALLS[name]
    one, other = socket.socketpair()
    with one, other:
        d = dhaga.spawn(call, one)
        for data in b"a", b"bc":
            settle()
            assert d.state == "WAITING"
            other.send(data)
        settle()
        assert d.state == "WAITING"
        other.send(b"de")
        assert ends_within(5, d) == whole
        other.close()
        assert dhaga.spawn(call, one).result(30) == end


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux does with fds")
def test_received_fds_end_the_call_as_in_the_kernel() -> None:
    def receives(one: Any, other: Any) -> Any:
        other.sendmsg([b"ab"], [(standard.SOL_SOCKET, standard.SCM_RIGHTS, array.array("i", [0]))])
        data, ancillary, flags, _ = one.recvmsg(4, 100, ALL)
        os.close(array.array("i", ancillary[0][2])[0])
        other.sendmsg([b"ab"], [(standard.SOL_SOCKET, standard.SCM_RIGHTS, array.array("i", [0]))])
        return data, flags & standard.MSG_CTRUNC, one.recvmsg(4, 0, ALL)[0]

    for module in standard, socket:
        one, other = module.socketpair()
        with one, other:
            assert dhaga.spawn(receives, one, other).result(30) == (b"ab", 0, b"ab")


# ---- beside the standard socket in a thread


def into(method: str, sock: Any, flags: int) -> bytes:
    buffer = bytearray(6)
    got = getattr(sock, method)(buffer, 0, flags)
    return bytes(buffer[: got if method == "recv_into" else got[0]])


def into_parts(sock: Any, flags: int) -> bytes:
    parts = bytearray(2), bytearray(4)
    got = sock.recvmsg_into(parts, 0, flags)[0]
    return b"".join(parts)[:got]


RECEIVES: dict[str, Callable[[Any, int], bytes]] = {
    "recv": lambda sock, flags: sock.recv(6, flags),
    "recv_into": partial(into, "recv_into"),
    "recvfrom": lambda sock, flags: sock.recvfrom(6, flags)[0],
    "recvfrom_into": partial(into, "recvfrom_into"),
    "recvmsg": lambda sock, flags: sock.recvmsg(6, 0, flags)[0],
    "recvmsg_into": into_parts,
}


def reset(peer: Any) -> None:
    peer.setsockopt(standard.SOL_SOCKET, standard.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


PEERS: dict[str, Callable[[Any, Any], object]] = {
    "sends the rest": lambda sock, peer: peer.sendall(b"def"),
    "sends a part and closes": lambda sock, peer: (peer.sendall(b"d"), peer.close()),
    "closes": lambda sock, peer: peer.close(),
    "resets": lambda sock, peer: reset(peer),
    "is limited": lambda sock, peer: sock.setsockopt(
        standard.SOL_SOCKET, standard.SO_RCVTIMEO, struct.pack("ll", 0, 20_000)
    ),
    "is shut down": lambda sock, peer: sock.shutdown(standard.SHUT_RD),
}
NOW, PEEK = int(getattr(standard, "MSG_DONTWAIT", 0)), int(standard.MSG_PEEK)


def tcp_of(module: Any) -> tuple[Any, Any]:
    with module.create_server(LOCAL) as listener:
        return module.create_connection(listener.getsockname()), listener.accept()[0]


def unix_of(module: Any) -> tuple[Any, Any]:
    return module.socketpair()  # type: ignore[no-any-return]


def said(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OSError as error:
        return type(error)


def received(module: Any, make: Any, name: str, flags: int, peer_does: str) -> list[Any]:
    """Return what a call with ``flags`` and two later calls bring, after the first bytes and an act of the peer."""
    sock, peer = make(module)
    with sock, peer:
        peer.sendall(b"abc")
        PEERS[peer_does](sock, peer)
        return [said(lambda: RECEIVES[name](sock, flags)), *(said(lambda: sock.recv(9, NOW)) for _ in range(2))]


def in_thread(call: Callable[..., list[Any]], *args: Any) -> list[Any]:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call(*args)))
    thread.start()
    thread.join()
    return results[0]  # type: ignore[no-any-return]


@pytest.mark.skipif(sys.platform != "linux", reason="the combinations of flags differ between kernels")
@pytest.mark.parametrize("flags", [ALL, ALL | NOW, ALL | PEEK, ALL | PEEK | NOW])
@pytest.mark.parametrize("name", RECEIVES)
@pytest.mark.parametrize("make", [tcp_of, unix_of])
def test_beside_other_flags_limits_and_errors_it_receives_what_the_standard_socket_does(
    make: Any, name: str, flags: int
) -> None:
    for peer_does in PEERS:
        if make is unix_of and peer_does == "resets":
            continue
        expected = in_thread(received, standard, make, name, flags, peer_does)
        assert dhaga.spawn(received, socket, make, name, flags, peer_does).result(30) == expected, peer_does


@pytest.mark.skipif(sys.platform != "linux", reason="what Linux does with MSG_PEEK")
@pytest.mark.parametrize("name", RECEIVES)
def test_a_peek_parks_until_all_bytes_are_there_and_takes_none(name: str) -> None:
    sock, peer = tcp_of(socket)
    with sock, peer:
        peeker = dhaga.spawn(RECEIVES[name], sock, ALL | PEEK)
        for data in b"a", b"bcd":
            settle()
            assert peeker.state == "WAITING"
            peer.sendall(data)
        peer.sendall(b"efgh")
        assert ends_within(5, peeker) == b"abcdef"
        assert sock.recv(9) == b"abcdefgh"


def test_a_peek_is_ended_by_a_close_and_by_a_cancel() -> None:
    sock, peer = tcp_of(socket)
    with sock, peer:
        peer.sendall(b"ab")
        peekers = [dhaga.spawn(caught, lambda: sock.recv(6, ALL | PEEK)) for _ in range(2)]
        settle()
        peekers[0].cancel()
        sock.close()
        assert isinstance(peekers[0].result(30), dhaga.Cancelled)
        assert getattr(peekers[1].result(30), "errno", None) == errno.EBADF
