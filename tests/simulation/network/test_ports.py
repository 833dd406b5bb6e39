"""The ports of simulated hosts: which addresses share a port, and which socket gets what arrives, as on Linux."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from dhaga.simulation import Simulation

STREAM, DATAGRAM = socket.SOCK_STREAM, socket.SOCK_DGRAM
REUSE = socket.SO_REUSEADDR
SHARE = socket.SO_REUSEPORT

ANY, LO, LO2 = "0.0.0.0", "127.0.0.1", "127.0.0.2"
ANY6, ONLY6, LO6, MAPPED = "::", "only ::", "::1", "::ffff:127.0.0.1"


def bound(address: str, port: int, kind: int = STREAM, *options: int, listens: bool = False) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    try:
        if address == ONLY6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        for option in options:
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        sock.bind((address.removeprefix("only "), port))
        if listens:
            sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


@contextmanager
def simulated() -> Iterator[ExitStack]:
    with Simulation(1, preempt=None), ExitStack() as stack:
        yield stack


def is_free(*arguments: Any, **options: Any) -> bool:
    """Return whether a socket can be bound, and make it listen if it is to listen."""
    try:
        bound(*arguments, **options).close()
    except OSError as error:
        assert error.errno == errno.EADDRINUSE
        return False
    return True


OVERLAPS = {
    ANY: {ANY, LO, LO2, ANY6, MAPPED},
    LO: {ANY, LO, ANY6, MAPPED},
    LO2: {ANY, LO2, ANY6},
    ANY6: {ANY, LO, LO2, ANY6, ONLY6, LO6, MAPPED},
    ONLY6: {ANY6, ONLY6, LO6},
    LO6: {ANY6, ONLY6, LO6},
    MAPPED: {ANY, LO, ANY6, MAPPED},
}


@pytest.mark.parametrize("kind", [STREAM, DATAGRAM])
@pytest.mark.parametrize("first", OVERLAPS)
def test_a_port_is_taken_at_the_addresses_that_overlap(first: str, kind: int) -> None:
    with simulated() as stack:
        stack.enter_context(bound(first, 80, kind))
        assert {each for each in OVERLAPS if not is_free(each, 80, kind)} == OVERLAPS[first]
        assert is_free(first, 80, DATAGRAM if kind == STREAM else STREAM)
        assert is_free(first, 81, kind)


@pytest.mark.parametrize(
    ("kind", "listens", "first", "second", "free"),
    [
        (STREAM, False, (REUSE,), (REUSE,), True),
        (STREAM, False, (REUSE,), (), False),
        (STREAM, False, (), (REUSE,), False),
        (STREAM, True, (REUSE,), (REUSE,), False),
        (STREAM, True, (SHARE,), (SHARE,), True),
        (STREAM, True, (SHARE,), (), False),
        (STREAM, True, (), (SHARE,), False),
        (DATAGRAM, False, (REUSE,), (REUSE,), True),
        (DATAGRAM, False, (REUSE,), (), False),
        (DATAGRAM, False, (REUSE,), (SHARE,), False),
    ],
)
def test_both_sockets_must_allow_that_they_share_a_port(
    kind: int, listens: bool, first: Any, second: Any, free: bool
) -> None:
    with simulated() as stack:
        stack.enter_context(bound(LO, 80, kind, *first, listens=listens))
        assert is_free(ANY, 80, kind, *second) is free


def test_the_second_of_two_sockets_at_a_port_cannot_listen() -> None:
    with simulated() as stack:
        one = stack.enter_context(bound(LO, 80, STREAM, REUSE))
        other = stack.enter_context(bound(ANY, 80, STREAM, REUSE))
        one.listen()
        with pytest.raises(OSError, match="Address already in use"):
            other.listen()


REACHED = {
    ANY: {LO, LO2, ANY, MAPPED},
    LO: {LO, ANY, MAPPED},
    LO2: {LO2},
    ANY6: {LO, LO2, ANY, ANY6, LO6, MAPPED},
    ONLY6: {ANY6, LO6},
    LO6: {ANY6, LO6},
    MAPPED: {LO, ANY, MAPPED},
}


@pytest.mark.parametrize("address", REACHED)
def test_a_listener_gets_the_connections_to_its_address(address: str) -> None:
    with simulated() as stack:
        listener = stack.enter_context(bound(address, 80, listens=True))
        for target in (LO, LO2, ANY, ANY6, LO6, MAPPED):
            with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET) as sock:
                if target not in REACHED[address]:
                    with pytest.raises(ConnectionRefusedError):
                        sock.connect((target, 80))
                    continue
                sock.connect((target, 80))
                peer, seen = listener.accept()
                near = LO6 if target in (ANY6, LO6) else LO
                assert sock.getsockname()[0] == (near if sock.family == socket.AF_INET or near == LO6 else MAPPED)
                with peer:
                    assert seen == peer.getpeername() and seen[1] == sock.getsockname()[1]
                    assert seen[0] == (near if ":" not in address or near == LO6 else MAPPED)


@pytest.mark.parametrize(
    ("kind", "addresses", "target", "wanted"),
    [
        (STREAM, (LO, LO6), LO, 0),
        (STREAM, (LO, LO6), LO6, 1),
        (STREAM, (ANY, ONLY6), LO, 0),
        (STREAM, (ANY, ONLY6), LO6, 1),
        (STREAM, (ANY, LO), LO, 1),
        (STREAM, (LO, ANY), LO, 0),
        (STREAM, (ANY6, ANY), LO, 1),
        (STREAM, (ANY, ANY6), LO, 0),
        (DATAGRAM, (LO, LO6), LO, 0),
        (DATAGRAM, (LO, LO6), LO6, 1),
        (DATAGRAM, (ANY, LO), LO, 1),
        (DATAGRAM, (LO, ANY), LO, 0),
        (DATAGRAM, (LO, LO2), LO2, 1),
    ],
)
def test_of_several_sockets_the_nearest_to_the_address_gets_it(
    kind: int, addresses: tuple[str, str], target: str, wanted: int
) -> None:
    with simulated() as stack:
        socks = [stack.enter_context(bound(each, 80, kind, SHARE, listens=kind == STREAM)) for each in addresses]
        sock = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, kind))
        sock.connect((target, 80))
        sock.send(b"x")
        assert select.select(socks, [], [], 10)[0] == [socks[wanted]]


def test_of_datagram_sockets_at_one_address_the_connected_one_or_the_last_gets_it() -> None:
    with simulated() as stack:
        first, last = [stack.enter_context(bound(LO, 80, DATAGRAM, REUSE)) for _ in range(2)]
        sender = stack.enter_context(bound(LO, 81, DATAGRAM))
        sender.sendto(b"to the last", (LO, 80))
        assert last.recv(100) == b"to the last"
        first.connect((LO, 81))
        sender.sendto(b"to the first", (LO, 80))
        assert first.recv(100) == b"to the first"


def test_sockets_that_share_a_port_take_turns_by_draws() -> None:
    with simulated() as stack:
        socks = [stack.enter_context(bound(LO, 80, STREAM, SHARE, listens=True)) for _ in range(2)]
        for _ in range(20):
            stack.enter_context(socket.create_connection((LO, 80)))
        assert select.select(socks, [], [], 10)[0] == socks


def test_a_connection_keeps_the_port_from_those_who_do_not_reuse_it() -> None:
    with simulated() as stack:
        listener = bound(LO, 80, STREAM, REUSE, listens=True)
        stack.enter_context(socket.create_connection((LO, 80)))
        peer, _ = listener.accept()
        listener.close()
        assert not is_free(LO, 80) and is_free(LO, 80, STREAM, REUSE)
        assert peer.getsockopt(socket.SOL_SOCKET, REUSE) == 1
        peer.close()
        time.sleep(1)
        assert is_free(LO, 80)


def test_a_connected_socket_keeps_the_address_to_which_it_was_bound() -> None:
    with simulated() as stack:
        listener = stack.enter_context(bound(LO, 80, listens=True))
        sock = stack.enter_context(bound("127.0.0.9", 0))
        sock.connect((LO, 80))
        peer, seen = listener.accept()
        peer.close()
        assert seen == sock.getsockname() == ("127.0.0.9", 32768)


def test_a_second_listen_changes_the_backlog() -> None:
    with simulated() as stack:
        listener = stack.enter_context(bound(LO, 80, listens=False))
        listener.listen(0)
        listener.listen(1)
        for _ in range(2):
            stack.enter_context(socket.create_connection((LO, 80), timeout=0.5))
        with pytest.raises(TimeoutError):
            socket.create_connection((LO, 80), timeout=0.5)


def test_a_closed_connection_leaves_nothing() -> None:
    with Simulation(1, preempt=None) as world:
        with socket.create_server((LO, 80)) as listener:
            for _ in range(3):
                with socket.create_connection((LO, 80)), listener.accept()[0]:
                    pass
        time.sleep(1)
        assert not world.network.ends and not world.network.ports.bound
