"""gevent's StreamServer and DatagramServer, with real clients."""

from __future__ import annotations

import ssl as standard_ssl
from collections.abc import Iterator
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import gevent
from dhaga.compat.gevent.baseserver import parse_address
from dhaga.compat.gevent.event import Event
from dhaga.compat.gevent.pool import Pool
from dhaga.compat.gevent.server import DatagramServer, StreamServer

SECONDS = 20

pytestmark = pytest.mark.usefixtures("all_end")


def echo(sock: Any, address: Any) -> None:
    while data := sock.recv(100):
        sock.sendall(data.upper())


@pytest.fixture
def server(all_end: None) -> Iterator[StreamServer]:
    server = StreamServer(("127.0.0.1", 0), echo)
    server.start()
    yield server
    server.stop()


def ask(server: StreamServer, text: bytes) -> bytes:
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(text)
        return client.recv(100)


def test_it_handles_each_connection_in_a_greenlet(server: StreamServer) -> None:
    assert server.started and server.server_port == server.address[1] and server.server_host == "127.0.0.1"
    asking = [gevent.spawn(ask, server, b"a%d" % number) for number in range(5)]
    assert [each.get(timeout=SECONDS) for each in asking] == [b"A%d" % number for number in range(5)]


def test_it_stops_and_starts_again(server: StreamServer) -> None:
    ask(server, b"a")
    server.stop()
    assert server.closed
    with pytest.raises(OSError, match=r".+"):
        ask(server, b"a")
    server.start()
    assert ask(server, b"b") == b"B"


def test_a_with_block_stops_its_server() -> None:
    with StreamServer(("127.0.0.1", 0), echo) as server:
        assert not server.started
        server.start()
        assert ask(server, b"a") == b"A"
    assert server.closed


def test_serve_forever_ends_with_stop_and_kills_the_handlers_of_its_pool() -> None:
    inside, killed = Event(), Event()

    def handle(sock: Any, address: Any) -> None:
        inside.set()
        try:
            gevent.sleep(100)
        finally:
            killed.set()

    pool = Pool(1)
    server = StreamServer(("127.0.0.1", 0), handle, spawn=pool)
    server.start()
    serving = gevent.spawn(server.serve_forever, stop_timeout=0)
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        assert inside.wait(SECONDS) and server.full()
        server.close()
        serving.get(timeout=SECONDS)
        assert killed.is_set() and client.recv(1) == b""


def test_a_subclass_has_the_handler_and_a_socket_is_the_listener() -> None:
    class Greeter(StreamServer):
        def handle(self, sock: Any, address: Any) -> None:
            sock.sendall(b"hello")

    listener = StreamServer.get_listener(("127.0.0.1", 0))
    server = Greeter(listener)
    server.start()
    assert ask(server, b"") == b"hello"
    server.stop()
    with pytest.raises(RuntimeError, match="make another"):
        server.start()
    with pytest.raises(TypeError, match="'handle' must be provided"):
        StreamServer(("127.0.0.1", 0))


def test_without_spawn_one_is_handled_after_the_other() -> None:
    server = StreamServer(("127.0.0.1", 0), echo, spawn=None)
    server.start()
    assert ask(server, b"a") == b"A" and ask(server, b"b") == b"B"
    assert "handle=<function echo" in repr(server)
    server.stop()


@pytest.mark.logs
def test_a_spawn_that_fails_costs_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    failing = [True]

    def spawn(function: Any, *args: Any) -> Any:
        if failing:
            failing.clear()
            raise MemoryError("no room")
        return gevent.spawn(function, *args)

    server = StreamServer(("127.0.0.1", 0), echo, spawn=spawn)
    server.start()
    with socket.create_connection(server.address, timeout=SECONDS) as refused:
        assert refused.recv(1) == b""
    assert ask(server, b"b") == b"B" and "MemoryError" in caplog.text
    server.stop()


def test_the_forms_of_an_address() -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    assert parse_address(":80") == parse_address(80) == parse_address(("", 80)) == (four, ("", 80))
    assert parse_address("*:80") == (four, ("", 80))
    assert parse_address("[::1]:80") == parse_address(("::1", 80)) == (six, ("::1", 80))
    assert parse_address("/tmp/socket") == (socket.AF_UNIX, "/tmp/socket")
    for wrong in ("host", 2.5, ("host",)):
        with pytest.raises((ValueError, TypeError), match="an address is"):
            parse_address(wrong)


def test_options_of_tls_make_a_context_and_others_are_refused() -> None:
    context = standard_ssl.SSLContext(standard_ssl.PROTOCOL_TLS_SERVER)
    assert StreamServer(("", 0), echo, ssl_context=context).ssl_enabled
    with pytest.raises(TypeError, match="do_handshake"):
        StreamServer(("", 0), echo, do_handshake=1)
    with pytest.raises(FileNotFoundError):
        StreamServer(("", 0), echo, keyfile="/nothing", certfile="/nothing")


def test_datagrams_are_handled_and_answered() -> None:
    class Upper(DatagramServer):
        def handle(self, data: bytes, address: Any) -> None:
            self.sendto(data.upper(), address)

    server = Upper("127.0.0.1:0")
    server.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(SECONDS)
        client.sendto(b"abc", server.address)
        assert client.recv(10) == b"ABC"
    server.stop()


@pytest.mark.logs
@pytest.mark.parametrize("error", [gevent.Timeout, gevent.GreenletExit])
def test_a_handler_that_fails_does_not_end_the_greenlet_that_accepts(error: Any) -> None:
    def fail(sock: Any, address: Any) -> None:
        raise error()

    server = StreamServer(("127.0.0.1", 0), fail, spawn=None)
    server.start()
    try:
        for _ in range(2):
            assert ask(server, b"") == b""
    finally:
        server.stop()
