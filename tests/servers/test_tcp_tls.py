"""``dhaga.servers`` with TLS: handshakes in the dhagas of their connections, bounded; ends that a peer can trust."""

from __future__ import annotations

import logging
import ssl as standard_ssl
from typing import Any

import pytest

import dhaga
from dhaga import socket, ssl
from dhaga.servers import Connection, TCPServer
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.certificates import NAME, client_context, server_context
from tests.servers.test_tcp import client, echo, hold, serving


def secured(sock: Any, **options: Any) -> Any:
    return client_context().wrap_socket(sock, server_hostname=NAME, **options)


@pytest.mark.parametrize("kind", [ssl, standard_ssl])
def test_tls_is_served_with_a_context_of_ours_or_the_standards(kind: Any) -> None:
    with serving(ssl_context=server_context(kind=kind)) as server, client(server) as sock, secured(sock) as tls:
        tls.sendall(b"hello")
        assert tls.recv(100) == b"hello"
        (connection,) = server.connections
        assert isinstance(connection.sock, ssl.SSLSocket)


def test_a_slow_handshake_holds_up_nobody_else() -> None:
    with serving(ssl_context=server_context()) as server, client(server):
        settle()
        with client(server) as sock, secured(sock) as tls:
            tls.sendall(b"hello")
            assert tls.recv(100) == b"hello"
            assert len(server.connections) == 2


def test_a_handshake_that_takes_too_long_is_given_up(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    with virtual_clock() as clock:
        with serving(ssl_context=server_context(), handshake_timeout=4) as server, client(server) as sock:
            assert sock.recv(1) == b""
            assert clock() == 4
    assert any(record.getMessage().endswith("no TLS: not done within 4 s") for record in caplog.records)


def test_what_is_no_tls_is_closed_and_no_error(caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    handled = []
    with serving(lambda sock, peer: handled.append(peer), ssl_context=server_context()) as server:
        with client(server) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            try:
                while sock.recv(100):
                    pass
            except ConnectionResetError:
                pass
        while server.connections:
            dhaga.sleep(0)
    assert not handled
    assert [record.levelname for record in caplog.records if "no TLS" in record.getMessage()] == ["INFO"]


def test_the_end_of_a_handler_is_told_from_a_cut() -> None:
    with serving(lambda sock, peer: sock.sendall(b"all"), ssl_context=server_context()) as server:
        with client(server) as sock, secured(sock, suppress_ragged_eofs=False) as tls:
            assert tls.recv(100) == b"all"
            assert tls.recv(100) == b""


@pytest.mark.logs
def test_a_handler_that_fails_is_a_cut() -> None:
    def fail(sock: Any, peer: Any) -> None:
        sock.sendall(b"a part")
        raise ZeroDivisionError

    with serving(fail, ssl_context=server_context()) as server:
        with client(server) as sock, secured(sock, suppress_ragged_eofs=False) as tls:
            assert tls.recv(100) == b"a part"
            with pytest.raises(ssl.SSLEOFError):
                tls.recv(100)


def test_a_handler_may_close_its_connection_itself() -> None:
    with serving(lambda sock, peer: sock.close(), ssl_context=server_context()) as server:
        with client(server) as sock, secured(sock) as tls:
            assert tls.recv(100) == b""


def test_stop_ends_handshakes_under_way() -> None:
    server = TCPServer(hold, ssl_context=server_context()).start()
    with client(server) as sock:
        settle()
        server.stop(0)
        assert sock.recv(1) == b""


@pytest.mark.logs  # a handler that times out
def test_a_connection_cancelled_at_any_park_is_closed() -> None:
    context = server_context()

    def scenario() -> tuple[dhaga.Dhaga, Any]:
        server = TCPServer(echo, ssl_context=context).start()
        near, far = socket.socketpair()
        victim = Connection(server, far, "somebody")
        server.permits.acquire()
        server.connections[victim] = None
        server.scheduler.admit(victim)

        def talk() -> None:
            with near:
                try:
                    with secured(near) as tls:
                        tls.sendall(b"hello")
                        assert tls.recv(100) in (b"hello", b"")
                except OSError:
                    pass

        dhaga.spawn(talk)
        dhaga.spawn(lambda: (victim.join(), server.stop()))

        def check() -> None:
            assert victim.sock.fileno() == -1
            assert not server.connections

        return victim, check

    assert cancel_at_every_park(scenario) >= 3
