"""Ways to make a socket: dup, detach, fromfd, makefile, create_server, create_connection; datagrams."""

from __future__ import annotations

import os
import socket as standard

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle
from tests.kit.sockets import (
    LOCAL,
    ends_within,
    tcp,
)

# ---- ways to make one


def test_dup_shares_the_connection_and_lives_on() -> None:
    with tcp() as (one, other):
        twin = one.dup()
        assert isinstance(twin, socket.socket) and twin.fileno() != one.fileno()
        one.close()
        with twin:
            d = dhaga.spawn(twin.recv, 10)
            settle()
            other.send(b"x")
            assert ends_within(5, d) == b"x"


def test_detach_gives_the_fd_away_open_and_as_blocking_as_the_timeout_says() -> None:
    for timeout, blocking in ((None, True), (5, False), (0, False)):
        with tcp() as (one, other):
            one.settimeout(timeout)
            dhaga.spawn(other.send, b"ab").join()
            assert one.recv(1) == b"a"
            fd = one.detach()
            assert one.fileno() == -1 and os.get_blocking(fd) is blocking
            with standard.socket(fileno=fd) as plain:
                assert plain.recv(10) == b"b"


def test_two_objects_over_one_fd_are_both_told() -> None:
    with tcp() as (one, other):
        twin = socket.socket(fileno=one.fileno())
        readers = [dhaga.spawn(one.recv, 1), dhaga.spawn(twin.recv, 1)]
        settle()
        other.send(b"ab")
        assert sorted(ends_within(5, d) for d in readers) == [b"a", b"b"]
        twin.detach()


def test_fromfd_duplicates() -> None:
    with tcp() as (one, other), socket.fromfd(one.fileno(), socket.AF_INET, socket.SOCK_STREAM) as twin:
        assert isinstance(twin, socket.socket) and twin.fileno() != one.fileno()
        d = dhaga.spawn(twin.recv, 10)
        settle()
        other.send(b"x")
        assert ends_within(5, d) == b"x"


def test_a_file_over_a_socket_keeps_it_open_and_reads_lines() -> None:
    with tcp() as (one, other):
        file = one.makefile("rw", encoding="ascii", newline="\n")
        one.close()
        d = dhaga.spawn(lambda: [file.readline(), file.readline(), file.write("bye\n"), file.flush()])
        for part in (b"fi", b"rst\nsec", b"ond\n"):
            settle()
            other.send(part)
        assert ends_within(5, d)[:2] == ["first\n", "second\n"]
        assert other.recv(10) == b"bye\n"
        file.close()
        assert other.recv(10) == b""


def test_create_server_listens_with_its_options() -> None:
    with socket.create_server(LOCAL, backlog=3, reuse_port=True) as listener:
        assert isinstance(listener, socket.socket) and listener.gettimeout() is None
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
        with socket.create_connection(listener.getsockname(), timeout=5, source_address=LOCAL) as client:
            assert client.gettimeout() == 5
            with listener.accept()[0] as server:
                server.send(b"x")
                assert client.recv(1) == b"x"


def test_create_connection_tries_each_address_and_raises_the_first_or_all_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(LOCAL) as gone:
        refused = gone.getsockname()
    with socket.create_server(LOCAL) as listener:
        found = [refused, refused]
        row = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(*row, address) for address in found])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("name", 1))
        with pytest.raises(ExceptionGroup, match="create_connection failed") as info:
            socket.create_connection(("name", 1), all_errors=True)
        assert [type(error) for error in info.value.exceptions] == [ConnectionRefusedError] * 2
        found.append(listener.getsockname())
        socket.create_connection(("name", 1)).close()
        found.clear()
        with pytest.raises(OSError, match="empty list"):
            socket.create_connection(("name", 1), all_errors=True)


def test_what_is_not_defined_is_the_standards() -> None:
    assert socket.AF_INET is standard.AF_INET and socket.inet_aton is standard.inet_aton
    assert set(dir(standard)) <= set(dir(socket)) and issubclass(socket.socket, standard.socket)
    assert socket.timeout is TimeoutError and socket.error is OSError
    with pytest.raises(AttributeError):
        socket.nonsense


# ---- datagrams


def test_datagrams_are_sent_and_received() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other:
        one.bind(LOCAL)
        other.bind(LOCAL)
        d = dhaga.spawn(lambda: [one.recvfrom(3), one.recvfrom(100), one.recv(100), one.recv(100)])
        settle()
        other.sendto(b"truncated", one.getsockname())
        other.sendto(b"whole", 0, one.getsockname())
        other.sendmsg([b"pa", b"rts"], [], 0, one.getsockname())
        other.connect(one.getsockname())
        other.send(b"")  # is one, too
        sender = other.getsockname()
        assert ends_within(5, d) == [(b"tru", sender), (b"whole", sender), b"parts", b""]
        with pytest.raises(TypeError):
            other.sendto(b"x")


def test_short_datagrams_in_a_row_are_all_read() -> None:
    one, other = socket.socketpair(type=socket.SOCK_DGRAM)
    with one, other:
        d = dhaga.spawn(lambda: [one.recv(100) for _ in range(5)])
        settle()
        for n in range(5):
            other.send(b"%d" % n)
        assert ends_within(5, d) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_datagram_to_nobody_comes_back_as_an_error_to_the_reader() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        with socket.socket(type=socket.SOCK_DGRAM) as gone:
            gone.bind(LOCAL)
            address = gone.getsockname()
        one.connect(address)
        d = dhaga.spawn(one.recv, 10)
        settle()
        one.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            ends_within(5, d)
