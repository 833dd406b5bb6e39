"""MSG_WAITALL with recvfrom and recvmsg; that with recv is in tests/test_socket_stream.py."""

from __future__ import annotations

import array
import os
import socket as standard
import sys
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle
from tests.kit.sockets import ends_within

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
