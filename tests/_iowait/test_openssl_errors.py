"""A connection that breaks tells no other one of its OS thread so: OpenSSL keeps its errors for each thread."""

from __future__ import annotations

import contextlib
import socket as standard_socket
import struct
import sys
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.testing import settle
from tests.kit.certificates import NAME, client_context, server_context


@contextlib.contextmanager
def connection() -> Any:
    """Yield both ends of a TLS connection, the client's first."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, contextlib.ExitStack() as ends:
        client = ends.enter_context(socket.create_connection(listener.getsockname()))
        server = ends.enter_context(listener.accept()[0])
        shake = dhaga.spawn(server_context().wrap_socket, server, server_side=True)
        client = ends.enter_context(client_context().wrap_socket(client, server_hostname=NAME))
        yield client, ends.enter_context(shake.result())


def break_one() -> None:
    """Leave an error of the operating system in OpenSSL's queue, where CPython leaves it there."""
    with connection() as (client, server):
        server.setsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
        dhaga.sleep(0.01)
        for _ in range(3):
            with contextlib.suppress(OSError):
                client._sslobj.write(b"to nobody")


@pytest.mark.parametrize("read", ["recv", "recv_into"])
def test_a_read_that_has_to_wait_is_not_told_of_another_connection(read: str) -> None:
    def receive() -> bytes:
        if read == "recv":
            return client.recv(9)
        buffer = bytearray(9)
        return bytes(buffer[: client.recv_into(buffer)])

    with connection() as (client, server):
        server.sendall(b"first")
        assert receive() == b"first"
        client.watcher_.readable = True  # a try in vain is made
        break_one()
        reader = dhaga.spawn(receive)
        settle()
        server.sendall(b"second")
        assert reader.result(30) == b"second"


@pytest.mark.long("many handshakes")
def test_a_write_that_has_to_wait_is_not_told_of_another_connection() -> None:
    with connection() as (client, server):
        data = bytes(3_000_000)
        break_one()
        writer = dhaga.spawn(client.sendall, data)
        settle()
        come = 0
        while come < len(data):
            break_one()
            come += len(server.recv(1 << 20))
        writer.result(30)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="an earlier ssl takes a reset for an end of file")
def test_a_connection_that_is_broken_says_so_by_its_first_errors() -> None:
    with connection() as (client, server):
        server.setsockopt(standard_socket.SOL_SOCKET, standard_socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
        dhaga.sleep(0.01)
        with pytest.raises(ConnectionResetError):
            client.recv(9)
        for _ in range(2):  # OpenSSL 3.6 would answer with SSLError: BAD_LENGTH after a second read
            with pytest.raises(BrokenPipeError):
                client.send(b"to nobody")
