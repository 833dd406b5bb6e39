"""``dhaga.ssl``: many handshakes at once, and what a write keeps of the buffer."""

from __future__ import annotations

import resource
from typing import Any

import pytest

import dhaga
from dhaga import socket
from tests.kit.certificates import NAME, client_context, server_context
from tests.kit.tls import LOCAL, tls

RECORD = 1 << 14


@pytest.mark.slow
def test_a_thousand_handshakes_at_once_in_one_thread() -> None:
    client, server = client_context(), server_context()
    peers = 1000

    def answer(sock: Any) -> None:
        with server.wrap_socket(sock, server_side=True) as other:
            other.sendall(other.recv(10) + b" pong")
            other.recv(1)

    def talk(address: Any) -> bytes:
        with socket.create_connection(address) as sock, client.wrap_socket(sock, server_hostname=NAME) as one:
            one.sendall(b"ping")
            answer: bytes = one.recv(10)
            return answer

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 5 * peers)), hard))
    try:
        with socket.create_server(LOCAL, backlog=peers) as listener:
            clients = [dhaga.spawn(talk, listener.getsockname()) for _ in range(peers)]
            servers = [dhaga.spawn(answer, listener.accept()[0]) for _ in range(peers)]
            assert {d.result(100) for d in clients} == {b"ping pong"}
            for d in servers:
                d.result(100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("peer", ["slow", "gone"])
def test_a_kept_error_of_a_write_does_not_keep_the_buffer(peer: str) -> None:
    with tls() as (client, server):
        data = bytearray(4 * RECORD)
        if peer == "gone":
            server.close()
        else:
            client.setblocking(False)
        with pytest.raises(OSError) as caught:
            for _ in range(1000):
                client.send(data)
        data += b"more"
        assert caught.value.__traceback__ is not None
