"""``eventlet.serve`` and its like: connections, and their end."""

from __future__ import annotations

import ssl as standard_ssl
import tempfile
import warnings
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import eventlet
from dhaga.compat.eventlet import convenience
from tests.kit.certificates import certificate

ended = eventlet.Queue()


def echo(sock: Any, peer: Any) -> None:
    try:
        while data := sock.recv(99):
            if data == b"stop":
                raise eventlet.StopServe
            if data == b"fail":
                raise KeyError("of the handler")
            sock.sendall(data)
    finally:
        ended.put(peer)


def wait_for_handlers(count: int) -> None:
    for _ in range(count):
        with eventlet.Timeout(30):
            ended.get()
    eventlet.sleep(0)


def test_a_server_echoes_until_a_handler_stops_it() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(eventlet.serve, listener, echo, concurrency=5)
    clients = [eventlet.connect(listener.getsockname()) for _ in range(3)]
    for client in clients:
        client.sendall(b"word")
        assert client.recv(99) == b"word"
    clients[0].sendall(b"stop")
    assert server.wait() is None
    for client in clients:
        client.close()
    listener.close()
    wait_for_handlers(3)


@pytest.mark.logs
def test_the_error_of_a_handler_is_that_of_the_server() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    server = eventlet.spawn(eventlet.serve, listener, echo)
    client = eventlet.connect(listener.getsockname(), bind=("127.0.0.1", 0))
    waiter = eventlet.spawn(server.wait)
    client.sendall(b"fail")
    with pytest.raises(KeyError, match="of the handler"):
        waiter.wait()
    assert client.recv(9) == b""
    wait_for_handlers(1)
    client.close()
    listener.close()


def test_a_random_port_is_shared_on_demand_and_with_a_warning_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = eventlet.listen(("127.0.0.1", 0))
    with pytest.warns(convenience.ReuseRandomPortWarning):
        eventlet.listen(("127.0.0.1", 0), reuse_port=True).close()
    with pytest.raises(OSError, match="in use"):
        eventlet.listen(first.getsockname(), reuse_port=False)
    with pytest.raises(OSError, match="in use"):
        eventlet.listen(first.getsockname())
    first.close()
    with pytest.raises(ConnectionRefusedError):
        eventlet.connect(("127.0.0.1", 1))


def test_a_listener_in_tls() -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate("localhost").private_key_and_cert_chain_pem.bytes())
        file.flush()
        plain = eventlet.listen(("127.0.0.1", 0))
        listener = eventlet.wrap_ssl(plain, certfile=file.name, server_side=True)
    server = eventlet.spawn(eventlet.serve, listener, echo)
    client = eventlet.wrap_ssl(eventlet.connect(listener.getsockname()))
    client.sendall(b"secret")
    assert client.recv(99) == b"secret" and isinstance(client, standard_ssl.SSLSocket)
    client.close()
    wait_for_handlers(1)
    server.kill()
    listener.close()


def test_a_connection_that_was_reset_has_no_more_data() -> None:
    listener = eventlet.listen(("127.0.0.1", 0))
    client = eventlet.connect(listener.getsockname())
    server, _ = listener.accept()
    client.sendall(b"unread")
    eventlet.sleep(0.01)
    server.close()  # a RST, as there is data that nobody has read
    assert client.recv(1) == b"" and client.recv_into(bytearray(1)) == 0
    twin = listener.dup()
    assert type(twin) is type(listener) is type(server) and twin.getsockname() == listener.getsockname()
    client.close()
    listener.close()
    twin.close()


def test_listeners_and_connections_are_of_the_class_that_a_test_puts_into_green_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []

    class Mock:
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    monkeypatch.setattr(socket, "socket", Mock)
    assert isinstance(convenience.listen(("127.0.0.1", 0)), Mock)
    assert isinstance(convenience.connect(("127.0.0.1", 1)), Mock)
    assert made == [(socket.AF_INET, socket.SOCK_STREAM)] * 2
