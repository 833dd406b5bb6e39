"""Sockets: each blocking call parks within its timeout, closing wakes whoever waits, and no byte is lost."""

from __future__ import annotations

import ctypes
import errno
import os
import socket as standard
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle, virtual_clock
from tests.kit.sockets import (
    LOCAL,
    READERS,
    WRITERS,
    drain,
    ends_within,
    fill,
    tcp,
    unix,
)


@pytest.mark.parametrize("pair", [tcp, unix])
@pytest.mark.parametrize("name", READERS)
def test_reading_parks_until_something_comes(name: str, pair: Any) -> None:
    with virtual_clock(), pair() as (one, other):
        d = dhaga.spawn(READERS[name], one)
        settle()
        assert f"WAITING read fd {one.fileno()}" in repr(d)
        other.send(b"?")
        result = ends_within(5, d)
        assert result in (b"?", 1) or result[0] in (b"?", 1)


@pytest.mark.parametrize("name", READERS)
def test_reading_honours_the_timeout(name: str) -> None:
    with virtual_clock() as clock, tcp() as (one, other):
        one.settimeout(7)
        d = dhaga.spawn(READERS[name], one)
        with pytest.raises(TimeoutError):
            d.result()
        assert clock() == 7
        if name != "makefile":  # a file that timed out reads no more
            other.send(b"?")
            READERS[name](one)


@pytest.mark.parametrize("name", READERS)
def test_reading_without_patience_raises_at_once(name: str) -> None:
    with unix() as (one, _):
        one.setblocking(False)
        if name == "makefile":
            with one.makefile("rb", buffering=0) as file:
                assert file.read(1) is None
        else:
            with pytest.raises(BlockingIOError):
                READERS[name](one)


@pytest.mark.parametrize("name", WRITERS)
def test_writing_parks_while_the_buffer_is_full(name: str) -> None:
    with virtual_clock(), unix() as (one, other):
        sent = fill(one)
        d = dhaga.spawn(WRITERS[name], one)
        settle()
        assert f"WAITING write fd {one.fileno()}" in repr(d)
        assert drain(other) == sent
        ends_within(5, d)
        assert other.recv(10) == b"!"


def test_a_send_that_must_not_wait_raises_once_the_buffer_is_full() -> None:
    def sends() -> int:
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += one.send(b"x" * 5000, socket.MSG_DONTWAIT)
        with pytest.raises(OverflowError):
            one.send(b"x", 1 << 80)
        return sent

    with virtual_clock(), unix() as (one, other):
        assert dhaga.spawn(sends).result() == drain(other)


@pytest.mark.parametrize("name", WRITERS)
def test_writing_honours_the_timeout(name: str) -> None:
    with virtual_clock() as clock, unix() as (one, _):
        fill(one)
        one.settimeout(7)
        with pytest.raises(TimeoutError):
            dhaga.spawn(WRITERS[name], one).result()
        assert clock() == 7


def test_sendto_parks_while_a_named_unix_socket_has_no_room_and_honours_the_timeout(tmp_path: Path) -> None:
    with (
        virtual_clock() as clock,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
    ):
        path = str(tmp_path / "s")
        receiver.bind(path)
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"?", path)
        sender.settimeout(3)
        for send in (lambda: sender.sendto(b"!", path), lambda: sender.sendmsg([b"!"], [], 0, path)):
            began = clock()
            with pytest.raises(TimeoutError):
                send()
            assert clock() - began == pytest.approx(3)
        sender.settimeout(None)
        d = dhaga.spawn(sender.sendto, b"!", path)
        dhaga.sleep(1)
        assert d.state == "WAITING"
        assert receiver.recv(10) == b"?"
        assert ends_within(5, d) == 1


def test_accept_parks_and_honours_the_timeout() -> None:
    with virtual_clock() as clock, socket.create_server(LOCAL) as listener:
        listener.settimeout(5)
        with pytest.raises(TimeoutError):
            listener.accept()
        assert clock() == 5
        listener.settimeout(None)
        d = dhaga.spawn(listener.accept)
        settle()
        assert f"WAITING read fd {listener.fileno()}" in repr(d)
        with socket.create_connection(listener.getsockname()) as client:
            accepted, address = ends_within(5, d)
            with accepted:
                assert address == client.getsockname() and isinstance(accepted, socket.socket)
                assert accepted.gettimeout() is None and accepted.getblocking()


def test_connect_honours_the_timeout_and_lets_others_run() -> None:
    """A listener whose backlog is full answers nothing."""
    with virtual_clock() as clock, socket.create_server(LOCAL, backlog=0) as listener:
        address = listener.getsockname()
        clients = [socket.socket() for _ in range(4)]
        ticks: list[float] = []
        ticker = dhaga.spawn(lambda: [(dhaga.sleep(0.25), ticks.append(clock())) for _ in range(4)])
        timed_out = 0
        for client in clients:
            client.settimeout(2)
            try:
                client.connect(address)
            except TimeoutError:
                timed_out += 1
        ticker.join()
        assert timed_out and clock() >= 2 * timed_out and ticks[:4] == [0.25, 0.5, 0.75, 1]
        with socket.socket() as last:
            last.settimeout(1)
            assert last.connect_ex(address) == errno.EAGAIN
        for client in clients:
            client.close()


def test_connect_reports_a_refusal_as_the_standard_does() -> None:
    with socket.create_server(LOCAL) as listener:
        address = listener.getsockname()
    with socket.socket() as sock:
        assert sock.connect_ex(address) == errno.ECONNREFUSED
    with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
        sock.connect(address)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a refused socket cannot always connect again")
def test_a_refused_socket_connects_again_and_a_connected_one_does_not() -> None:
    with socket.create_server(LOCAL) as listener:
        address = listener.getsockname()
    with socket.socket() as sock:
        assert [sock.connect_ex(address) for _ in range(3)] == [errno.ECONNREFUSED] * 3
        with socket.create_server(address):
            sock.connect(address)
            assert sock.connect_ex(address) == errno.EISCONN


def test_connect_to_a_unix_socket_parks_while_the_backlog_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with virtual_clock() as clock, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with socket.socket(socket.AF_UNIX) as first, socket.socket(socket.AF_UNIX) as second:
            first.connect(path)
            second.settimeout(3)
            with pytest.raises(TimeoutError):
                second.connect(path)
            assert clock() == pytest.approx(3)
            second.settimeout(None)
            d = dhaga.spawn(second.connect, path)
            dhaga.sleep(1)
            assert d.state == "WAITING"
            listener.accept()[0].close()
            ends_within(5, d)
            listener.accept()[0].close()


def test_dhagas_of_a_scheduler_go_on_while_another_waits_on_a_socket() -> None:
    with tcp() as (one, other):
        steps: list[int] = []

        def counts() -> None:
            for n in range(5):
                dhaga.sleep(0.001)
                steps.append(n)
            other.send(b"now")

        counter = dhaga.spawn(counts)
        assert one.recv(10) == b"now" and steps == [0, 1, 2, 3, 4]
        counter.join()


def test_a_mock_or_a_factory_in_place_of_the_class_makes_every_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(LOCAL) as server:
        address = server.getsockname()
        with socket.create_connection(address) as client:
            mocked = MagicMock()
            monkeypatch.setattr(standard, "socket", mocked)
            made = [
                socket.create_connection(address),
                socket.create_server(LOCAL),
                socket.fromfd(client.fileno(), client.family, client.type),
                server.accept()[0],
                *socket.socketpair(),
            ]
            assert all(sock is mocked.return_value for sock in made)
            for call in mocked.call_args_list[2:]:
                os.close(call.kwargs["fileno"] if call.kwargs else call.args[3])


@pytest.mark.parametrize("flags", [0, standard.MSG_WAITALL])
def test_it_receives_into_any_buffer_of_c_types(flags: int) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("one", ctypes.c_int), ("other", ctypes.c_int))

    one, other = socket.socketpair()
    with one, other:
        for kind, size in (Pair, 8), (ctypes.c_int, 4), (ctypes.c_int * 4, 16), (ctypes.c_int * 0, 0):
            buffer: Any = kind()
            other.send(b"abcdefghijklmnop"[:size])
            assert one.recv_into(buffer, 0, flags) == size
            assert bytes(buffer) == b"abcdefghijklmnop"[:size]
            with pytest.raises(ValueError):
                one.recv_into(buffer, size + 1, flags)
            with pytest.raises(ValueError):
                one.recv_into(buffer, -1, flags)


def test_a_kept_error_of_a_read_for_all_does_not_keep_the_buffer() -> None:
    one, other = socket.socketpair()

    def reads() -> None:
        buffer = bytearray(100)
        try:
            one.recv_into(buffer, 50, standard.MSG_WAITALL)
        except dhaga.Cancelled:
            buffer += b"more"
            raise

    with one, other:
        other.send(b"begin")
        reader = dhaga.spawn(reads)
        settle()
        reader.cancel()
        with pytest.raises(dhaga.Cancelled):
            reader.result()


REFUSED: list[tuple[Any, ...]] = [
    ("recv", 10**30),
    ("recv", -1),
    ("recv", "x"),
    ("recv", 10, 10**30),
    ("recv_into", bytearray(3), 10**30),
    ("recv_into", bytearray(3), 4),
    ("recv_into", bytearray(3), -1),
    ("recv_into", b"abc"),
    ("recv_into", memoryview(b"abc")),
    ("recv_into", None),
    ("recvfrom", 10**30),
    ("recvfrom", -1),
    ("recvfrom_into", bytearray(3), 4),
    ("recvfrom_into", memoryview(b"abc")),
    ("recvmsg", -1),
    ("recvmsg", 10**30),
    ("recvmsg", 10, -1),
    ("recvmsg_into", [b"abc"]),
]


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize(("name", "arguments"), [(name, rest) for name, *rest in REFUSED])
def test_wrong_arguments_of_a_read_are_refused_before_it_waits(
    name: str, arguments: list[Any], timeout: float | None
) -> None:
    """Also by a socket that is known to be empty, after a short read that had to wait."""
    plain_near, plain_far = standard.socketpair()
    with plain_near, plain_far, pytest.raises(Exception) as expected:
        plain_near.setblocking(False)
        getattr(plain_near, name)(*arguments)
    with virtual_clock(), unix() as (near, far):

        def reads() -> None:
            near.settimeout(timeout)
            for _ in range(2):
                assert near.recv(100) == b"abc"
            with pytest.raises(expected.type):
                getattr(near, name)(*arguments)

        reader = dhaga.spawn(reads)
        for _ in range(2):
            settle()
            far.send(b"abc")
        settle()
        assert not reader.is_alive()
        reader.result()


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_read_of_nothing_does_not_wait(timeout: float | None) -> None:
    with virtual_clock(), unix() as (near, far):

        def reads() -> list[object]:
            near.settimeout(timeout)
            first = [near.recv(100), near.recv(100)]  # the second parks: from then on a short read means empty
            return [*first, near.recv(0), near.recv_into(bytearray())]

        reader = dhaga.spawn(reads)
        for _ in range(2):
            settle()
            far.send(b"abc")
        settle()
        assert not reader.is_alive()
        assert reader.result() == [b"abc", b"abc", b"", 0]
