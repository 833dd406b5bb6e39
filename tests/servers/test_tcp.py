"""``dhaga.servers`` and ``dhaga.servers._listeners``: connections in dhagas of their own, limits, ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import select
import socket as standard
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.servers import TCPServer
from dhaga.servers import _acceptor as acceptor
from dhaga.servers import _tcp as servers
from dhaga.servers._listeners import format_address
from dhaga.testing import settle, virtual_clock
from tests.kit.scripts import Program, prints
from tests.kit.servers import LOCAL, ask, client, echo, hold, serving

# ---- connections


def test_each_connection_has_a_dhaga_of_its_own() -> None:
    with serving() as server, client(server) as one, client(server) as other:
        for sock, text in ((other, b"other"), (one, b"one")):
            sock.sendall(text)
            assert sock.recv(100) == text
        assert len(server.connections) == 2
        assert {connection.peer for connection in server.connections} == {one.getsockname(), other.getsockname()}


def test_a_connection_is_closed_when_its_handler_returns() -> None:
    kept = []
    with serving(lambda sock, peer: kept.append(sock)) as server, client(server) as sock:
        assert sock.recv(1) == b""
        assert kept[0].fileno() == -1
        assert not server.connections


@pytest.mark.logs
def test_an_error_of_a_handler_is_logged_once_with_the_peer_and_ends_that_connection_alone(caplog: Any) -> None:
    def handler(sock: Any, peer: Any) -> None:
        if sock.recv(100) == b"fail":
            raise ZeroDivisionError("as it was asked to")
        sock.sendall(b"served")

    with serving(handler) as server:
        with client(server) as other, client(server) as failing:
            failing.sendall(b"fail")
            assert failing.recv(1) == b""
            peer = format_address(failing.getsockname())
            other.sendall(b"go on")
            assert other.recv(100) == b"served"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"server, connection from {peer}: the handler failed"
    ]


def test_a_cancelled_connection_is_closed_and_no_error() -> None:
    with serving(hold) as server, client(server) as sock:
        settle()
        (connection,) = server.connections
        connection.cancel()
        assert sock.recv(1) == b""
        assert not server.connections


def test_a_connection_cancelled_before_its_start_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cancelled(servers.Connection):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.cancel()

    monkeypatch.setattr(servers, "Connection", Cancelled)
    with serving(hold) as server, client(server) as sock:
        assert sock.recv(1) == b""
        assert not server.connections


def test_a_system_exit_of_a_handler_ends_the_program() -> None:
    code = """
        import dhaga, socket, sys
        from dhaga.servers import TCPServer
        server = TCPServer(lambda sock, peer: sys.exit("asked to")).start()
        with socket.create_connection(server.address):
            server.serve_forever()
    """
    outcome = Program(code).outcome()
    assert (outcome.status, outcome.err) == (1, "asked to\n")


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: TCPServer(None), TypeError),
        (lambda: TCPServer(asyncio.sleep), TypeError),
        (lambda: TCPServer(echo, max_connections=0), ValueError),
        (lambda: TCPServer(echo, handshake_timeout=-1), ValueError),
        (lambda: TCPServer(echo, 8000).start(), TypeError),
        (lambda: TCPServer(echo, standard.socket()).start(), ValueError),
        (lambda: TCPServer(echo).address, RuntimeError),
        (lambda: TCPServer(echo, ("192.0.2.1", 0)).start(), OSError),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed <socket")
def test_what_cannot_work_is_refused_at_once(bad: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        bad()


def test_repr_tells_the_state() -> None:
    server = TCPServer(hold, name="doorman")
    assert repr(server) == "<TCPServer doorman at ('127.0.0.1', 0) not started, 0 connections>"
    server.start()
    where = f"doorman at 127.0.0.1:{server.address[1]}"
    assert repr(server) == f"<TCPServer {where} serving, 0 connections>"
    with client(server):
        settle()
        stopping = dhaga.spawn(server.stop)
        settle()
        assert repr(server) == f"<TCPServer {where} stopping, 1 connections>"
    stopping.join()
    assert repr(server) == f"<TCPServer {where} stopped, 0 connections>"


def test_a_server_starts_once() -> None:
    with serving() as server:
        with pytest.raises(RuntimeError, match="already started"):
            server.start()
    with pytest.raises(RuntimeError, match="already started"):
        server.start()


# ---- limits


def test_beyond_max_connections_clients_wait_in_the_backlog() -> None:
    with serving(max_connections=2) as server:
        with client(server) as waiting_to_leave, client(server) as second:
            settle()
            with client(server) as third:
                third.sendall(b"third")
                settle()
                assert len(server.connections) == 2
                waiting_to_leave.close()
                assert third.recv(100) == b"third"
                second.sendall(b"second")
                assert second.recv(100) == b"second"


def test_the_limit_holds_for_all_addresses_together() -> None:
    with serving(address=[LOCAL, LOCAL], max_connections=1) as server:
        first, second = (client(address) for address in server.addresses)
        with first as one, second as other:
            other.sendall(b"other")
            one.sendall(b"one")
            settle()
            assert len(server.connections) == 1
            (served,) = server.connections
            near, far = (one, other) if served.peer == one.getsockname() else (other, one)
            assert near.recv(100)
            near.close()
            assert far.recv(100)


EXHAUSTED = """
    import contextlib, logging, resource, sys, time
    import dhaga
    from dhaga import socket
    from dhaga.servers import TCPServer

    logging.basicConfig(level=logging.ERROR, stream=sys.stdout, format="%(message)s")

    def echo(sock, peer):
        while data := sock.recv(100):
            sock.sendall(data)

    def answers(clients):
        for sock in clients:
            sock.settimeout(0.01)
        answered = 0
        for sock in clients:
            with contextlib.suppress(TimeoutError):
                answered += sock.recv(100) == b"hello"
        return answered

    server = TCPServer(echo).start()
    clients = [socket.socket() for _ in range(20)]
    dhaga.sleep(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients[-1].fileno() + 11, 1000))
    for sock in clients:
        sock.connect(server.address)
        sock.sendall(b"hello")
    served = answers(clients)
    print("served:", served, "waiting:", 20 - served)
    for sock in clients[:10]:
        sock.close()
    then, deadline = 0, time.monotonic() + 20
    while then < 20 - max(10, served) and time.monotonic() < deadline:
        then += answers(clients[10:])
    print("served then:", then)
    for sock in clients[10:]:
        sock.close()
    server.stop()
    print("stopped")
"""


@pytest.mark.skipif(
    os.environ.get("DHAGA_POLLER") == "ioloop", reason="it needs a second descriptor, whose want the handler meets"
)
def test_want_of_descriptors_is_survived_and_told_once() -> None:
    first, *others = prints(EXHAUSTED)
    assert first.startswith("server cannot accept more connections: [Errno 24] Too many open files. ")
    served = int(others[0].split()[1])
    assert 0 < served < 20
    assert others == [f"served: {served} waiting: {20 - served}", f"served then: {20 - max(10, served)}", "stopped"]


@pytest.mark.logs
def test_want_is_told_again_once_it_had_passed(caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [errno.EMFILE, errno.EMFILE, 0, errno.ENOMEM]
    fail_in_turn(monkeypatch, errors)
    with virtual_clock():
        with serving() as server:
            assert ask(server) == ask(server) == b"hello"
            assert not errors
    texts = [record.getMessage() for record in caplog.records if "cannot accept" in record.getMessage()]
    assert [text.partition("[")[2][:8] for text in texts] == ["Errno 24", "Errno 12"]


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN])
def test_a_connection_that_is_gone_before_it_is_accepted_is_skipped(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_in_turn(monkeypatch, [number, number])
    with serving() as server:
        assert ask(server) == b"hello"


def fail_in_turn(monkeypatch: pytest.MonkeyPatch, errors: list[int]) -> None:
    """Have accept fail with these where a connection is there; 0: not."""
    accept_once = acceptor.accept_once

    def accept(listener: Any) -> Any:
        with standard.socket(fileno=os.dup(listener.fileno())) as same:
            there = select.select([same], [], [], 0)[0]
        number = errors.pop(0) if errors and there else 0
        if number:
            raise OSError(number, os.strerror(number))
        return accept_once(listener)

    monkeypatch.setattr(acceptor, "accept_once", accept)


@pytest.mark.logs
def test_a_server_that_cannot_accept_any_more_says_so_and_ends(caplog: Any) -> None:
    with serving() as server:
        waiting = dhaga.spawn(server.serve_forever)
        settle()
        server.listeners[0].shutdown(socket.SHUT_RDWR)
        waiting.join()
        assert server.stopping
    assert any("accepts no more connections" in record.getMessage() for record in caplog.records)


# ---- threads and processes


def test_servers_of_several_os_threads_share_a_listening_socket() -> None:
    def tell_thread(sock: Any, peer: Any) -> None:
        sock.sendall(threading.current_thread().name.encode())
        sock.recv(1)

    with socket.create_server(LOCAL) as listener, contextlib.ExitStack() as stack:
        schedulers = [stack.enter_context(dhaga.Scheduler(f"thread-{number}")) for number in range(2)]
        crew = [TCPServer(tell_thread, listener, max_connections=5) for _ in schedulers]
        for scheduler, server in zip(schedulers, crew, strict=True):
            scheduler.spawn(server.start).result()
        clients = [stack.enter_context(client(listener.getsockname())) for _ in range(10)]
        names = [sock.recv(100) for sock in clients]
        assert names.count(b"thread-0") == names.count(b"thread-1") == 5
        for server in crew:
            server.stop(0)
            assert not server.connections


def test_a_forked_child_has_no_part_in_the_server() -> None:
    code = """
        import os, warnings
        import dhaga
        from dhaga import socket
        from dhaga.servers import TCPServer
        warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")

        def echo(sock, peer):
            while data := sock.recv(100):
                sock.sendall(data)

        server = TCPServer(echo).start()
        sock = socket.create_connection(server.address)
        sock.sendall(b"before")
        print(sock.recv(100))
        pid = os.fork()
        if not pid:
            server.stop()
            print("child", len(server.connections), server.stopping)
            os._exit(0)
        os.waitpid(pid, 0)
        sock.sendall(b"after")
        print(sock.recv(100), server.stopping)
        with socket.create_connection(server.address) as another:
            another.sendall(b"another")
            print(another.recv(100))
        sock.close()
        server.stop()
    """
    assert prints(code) == ["b'before'", "child 0 True", "b'after' False", "b'another'"]


def connect_many(count: int) -> None:
    with serving() as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client(server)) for _ in range(count)]
        for number, sock in enumerate(clients):
            sock.sendall(b"%d" % number)
        assert [int(sock.recv(100)) for sock in clients] == list(range(count))
        assert len(server.connections) == count
        stopping = dhaga.spawn(server.stop)
        for sock in clients:
            sock.close()
        stopping.join()


def test_a_hundred_connections() -> None:
    connect_many(100)


@pytest.mark.slow
def test_two_thousand_connections() -> None:
    connect_many(2000)
