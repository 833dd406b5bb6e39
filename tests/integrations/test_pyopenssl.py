"""pyOpenSSL's connections in dhagas, both ends of which are in one OS thread, in plain threads and in coroutines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle
from tests.kit.certificates import certificate
from tests.kit.tls import tcp_pair

pytest.importorskip("OpenSSL")

from OpenSSL import SSL

from dhaga.integrations import pyopenssl as integration

BIG = bytes(range(256)) * 8192


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    integration.install()
    yield
    integration.uninstall()


def connection(sock: Any, server_side: bool) -> Any:
    context = SSL.Context(SSL.TLS_METHOD)
    if server_side:
        certificate().configure_cert(context)
    made = SSL.Connection(context, sock)
    (made.set_accept_state if server_side else made.set_connect_state)()
    return made


@contextmanager
def connected() -> Iterator[tuple[Any, Any]]:
    """Give the client's and the server's connection after their handshake."""
    near, far = tcp_pair()
    with near, far:
        client, server = connection(near, False), connection(far, True)
        serving = dhaga.spawn(server.do_handshake)
        client.do_handshake()
        serving.result(30)
        yield client, server


def received(end: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += end.recv(1 << 16)
    return data


def test_both_ends_may_be_in_one_os_thread() -> None:
    with connected() as (client, server):
        reader = dhaga.spawn(received, server, len(BIG))
        assert client.sendall(BIG) == len(BIG)
        assert reader.result(30) == BIG
        buffer = bytearray(5)
        reader = dhaga.spawn(client.recv_into, buffer)
        settle()
        assert server.write(memoryview(b"hello")) == 5 and (reader.result(30), buffer) == (5, b"hello")
        ending = dhaga.spawn(client.shutdown)
        with pytest.raises(SSL.ZeroReturnError):
            server.read(1)
        assert server.shutdown() is True and ending.result(30) is False and client.shutdown() is True


def test_others_run_while_a_connection_waits_and_a_cancel_ends_the_wait() -> None:
    with connected() as (client, server):
        reader = dhaga.spawn(client.recv, 1)
        settle()
        assert "read fd" in repr(reader)
        reader.cancel()
        with pytest.raises(dhaga.Cancelled):
            reader.result(30)
        server.send(b"x")
        assert client.recv(1) == b"x"


def test_closing_the_socket_wakes_who_waits() -> None:
    with connected() as (client, _):
        reader = dhaga.spawn(client.recv, 1)
        settle()
        client.gettimeout.__self__.close()
        with pytest.raises(SSL.SysCallError) as caught:
            reader.result(30)
        assert caught.value.args[1] == "EBADF"
        with pytest.raises(SSL.SysCallError):
            client.recv(1)


def test_with_a_timeout_the_program_waits_by_itself() -> None:
    with connected() as (client, server):
        client.settimeout(5)
        with pytest.raises(SSL.WantReadError):
            client.recv(1)
        client.settimeout(None)
        reader = dhaga.spawn(client.recv, 1)
        settle()
        server.send(b"x")
        assert reader.result(30) == b"x"


def test_plain_threads_block_and_coroutines_are_told_the_way() -> None:
    with connected() as (client, server):
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(client.recv(1)))
        thread.start()
        server.send(b"x")
        thread.join(30)
        assert got == [b"x"]

        async def reads() -> None:
            with pytest.raises(dhaga.ParkError, match=r"run_in_dhaga|dhaga.aio"):
                client.recv(1)

        asyncio.run(reads())


def test_what_has_no_socket_of_ours_is_left_as_it_is() -> None:
    memory = SSL.Connection(SSL.Context(SSL.TLS_METHOD))
    memory.set_connect_state()
    with pytest.raises(SSL.WantReadError):
        memory.do_handshake()
    assert memory.bio_read(1 << 14)
    integration.uninstall()
    assert SSL.Connection.recv.__module__ == "OpenSSL.SSL" and SSL.Connection.read.__name__ == "recv"


def test_an_accepted_connection_parks_as_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = dhaga.spawn(lambda: connection(listener, True).accept()[0])
        near = socket.socket()
        client = connection(near, False)
        client.connect(listener.getsockname())
        server = serving.result(30)
        shaking = dhaga.spawn(server.do_handshake)
        client.do_handshake()
        shaking.result(30)
        server.gettimeout.__self__.close()
        near.close()
