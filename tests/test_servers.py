"""``dhaga.servers`` and ``dhaga.listeners``: connections in dhagas of their own, limits, ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import pathlib
import select
import socket as standard
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import servers, socket
from dhaga.aio import run_in_dhaga
from dhaga.listeners import name_of_address
from dhaga.servers import TCPServer
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.scripts import Program, prints

LOCAL = ("127.0.0.1", 0)


def echo(sock: Any, peer: Any) -> None:
    while data := sock.recv(1000):
        sock.sendall(data)


def hold(sock: Any, peer: Any) -> None:
    """Keep the connection until the client ends it."""
    sock.recv(1)


@contextlib.contextmanager
def serving(handler: Callable[..., object] = echo, address: Any = LOCAL, **options: Any) -> Iterator[TCPServer]:
    """A server that is stopped without grace."""
    server = TCPServer(handler, address, **options).start()
    try:
        yield server
    finally:
        server.stop(0)


@contextlib.contextmanager
def client(server: Any) -> Iterator[socket.socket]:
    address = getattr(server, "address", server)
    with socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.create_connection(address[:2]) as sock:
        if isinstance(address, str):
            sock.connect(address)
        yield sock


def ask(server: Any, question: bytes = b"hello") -> bytes:
    with client(server) as sock:
        sock.sendall(question)
        return sock.recv(1000)


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
            peer = name_of_address(failing.getsockname())
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
        (lambda: TCPServer(None), TypeError),  # type: ignore[arg-type]
        (lambda: TCPServer(asyncio.sleep), TypeError),
        (lambda: TCPServer(echo, max_connections=0), ValueError),
        (lambda: TCPServer(echo, 8000).start(), TypeError),  # type: ignore[arg-type]
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
        with pytest.raises(RuntimeError, match="started before"):
            server.start()
    with pytest.raises(RuntimeError, match="started before"):
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


def test_each_connection_has_its_turn_before_the_next_is_accepted() -> None:
    most: list[int] = []
    with serving(lambda sock, peer: most.append(len(server.connections))) as server:
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                sock = stack.enter_context(standard.socket())
                sock.setblocking(False)
                sock.connect_ex(server.address)
            while len(most) < 10:
                dhaga.sleep(0)
    assert most == [1] * 10


EXHAUSTED = """
    import contextlib, logging, resource, sys
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
    dhaga.sleep(0.3)
    print("served then:", answers(clients[10:]))
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
    accept_once = servers.accept_once

    def accept(listener: Any) -> Any:
        with standard.socket(fileno=os.dup(listener.fileno())) as same:
            there = select.select([same], [], [], 0)[0]
        number = errors.pop(0) if errors and there else 0
        if number:
            raise OSError(number, os.strerror(number))
        return accept_once(listener)

    monkeypatch.setattr(servers, "accept_once", accept)


@pytest.mark.logs
def test_a_server_that_cannot_accept_any_more_says_so_and_ends(caplog: Any) -> None:
    with serving() as server:
        waiting = dhaga.spawn(server.serve_forever)
        settle()
        server.listeners[0].shutdown(socket.SHUT_RDWR)
        waiting.join()
        assert server.stopping
    assert any("accepts no more connections" in record.getMessage() for record in caplog.records)


# ---- addresses


def test_no_host_means_every_interface_with_one_port() -> None:
    with serving(address=("", 0)) as server:
        assert {address[0] for address in server.addresses} >= {"0.0.0.0"}
        assert len({address[1] for address in server.addresses}) == 1
        for address in server.addresses:
            assert ask((address[0].replace("0.0.0.0", "127.0.0.1").replace("::", "::1"), address[1])) == b"hello"


def test_ipv6_is_served() -> None:
    try:
        server = TCPServer(echo, ("::1", 0)).start()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert ask(server) == b"hello"
    assert f"[::1]:{server.address[1]}" in repr(server)
    server.stop(0)


def test_localhost_is_served_at_each_of_its_addresses() -> None:
    with serving(address=("localhost", 0)) as server:
        for address in server.addresses:
            assert ask(address) == b"hello"


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(OSError, match=r"the host 'no-such-host\.invalid'"):
        TCPServer(echo, ("no-such-host.invalid", 0)).start()


def test_an_address_in_use_is_refused_and_nothing_is_left_open() -> None:
    with serving() as server:
        with pytest.raises(OSError, match="in use"):
            TCPServer(echo, [LOCAL, server.address]).start()


@pytest.mark.skipif(not hasattr(standard, "SO_REUSEPORT"), reason="the platform has no SO_REUSEPORT")
def test_servers_share_a_port_with_reuse_port() -> None:
    with serving(reuse_port=True) as one, serving(address=one.address, reuse_port=True):
        assert ask(one) == b"hello"


@pytest.mark.parametrize("kind", [standard, socket])
def test_a_listening_socket_is_served_and_stays_the_callers(kind: Any) -> None:
    with kind.create_server(LOCAL) as listener:
        with serving(address=listener) as server:
            assert server.address == listener.getsockname()
            assert ask(server) == b"hello"
        with serving(address=listener) as server:
            assert ask(server) == b"hello"


def test_a_unix_socket_is_served_and_its_file_removed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with serving(address=path) as server:
        assert server.address == str(path)
        assert ask(server) == b"hello"
    assert not path.exists()


def test_the_socket_file_of_a_dead_server_is_taken_over(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with standard.socket(standard.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()
    with serving(address=path) as server:
        assert ask(server) == b"hello"


def test_the_socket_file_of_a_live_server_is_in_use(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    with serving(address=path) as server:
        with pytest.raises(OSError, match=r"in use.*socket") as caught:
            TCPServer(echo, path).start()
        assert caught.value.errno == errno.EADDRINUSE
        assert ask(server) == b"hello"


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    path.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        TCPServer(echo, path).start()
    assert path.read_text() == "precious"


def test_the_socket_file_of_a_successor_is_left_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "socket"
    former = TCPServer(echo, path).start()
    path.unlink()
    with serving(address=path) as server:
        former.stop()
        assert ask(server) == b"hello"


@pytest.mark.skipif(not hasattr(standard, "AF_UNIX") or os.uname().sysname != "Linux", reason="names without file")
def test_a_unix_socket_without_a_file() -> None:
    with serving(address=f"\0dhaga-{os.getpid()}") as server:
        name = os.fsdecode(server.address)
        assert ask(name) == b"hello"


def test_connections_of_a_server_send_small_pieces_at_once() -> None:
    delays = []
    handler = lambda sock, peer: delays.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))  # noqa: E731
    with serving(handler) as server, client(server) as sock:
        assert sock.recv(1) == b""
    assert delays and delays[0]


# ---- the end


def test_stop_lets_handlers_finish() -> None:
    trace: list[Any] = []

    def handler(sock: Any, peer: Any) -> None:
        trace.append((sock.recv(100), server.stopping))
        trace.append((sock.recv(100), server.stopping))
        sock.sendall(b"done")

    with virtual_clock():
        server = TCPServer(handler).start()
        with client(server) as sock:
            sock.sendall(b"first")
            settle()
            stopped = dhaga.spawn(server.stop, 60)
            settle()
            with pytest.raises(ConnectionRefusedError):
                ask(server)
            sock.sendall(b"last")
            assert sock.recv(100) == b"done"
            stopped.join()
    assert trace == [(b"first", False), (b"last", True)]


def test_stop_cancels_what_has_not_finished_in_time_and_waits_for_its_end() -> None:
    trace: list[Any] = []

    def handler(sock: Any, peer: Any) -> None:
        try:
            sock.recv(1)
        finally:
            trace.append(clock())
            dhaga.sleep(3)
            trace.append(clock())

    with virtual_clock() as clock:
        server = TCPServer(handler).start()
        with client(server) as sock:
            settle()
            server.stop(10)
            assert trace == [10, 13]
            assert sock.recv(1) == b""


def test_stop_again_does_nothing_and_before_the_start_forbids_that() -> None:
    server = TCPServer(echo)
    server.stop()
    server.stop()
    with pytest.raises(RuntimeError, match="started before"):
        server.start()


def test_a_shorter_stop_quickens_a_longer_one() -> None:
    with virtual_clock() as clock:
        server = TCPServer(hold).start()
        with client(server):
            settle()
            long = [dhaga.spawn(server.stop, seconds) for seconds in (None, 100)]
            settle()
            server.stop(5)
            assert [each.state for each in long] == ["RUNNABLE", "RUNNABLE"]
            assert clock() == 5
            for each in long:
                each.join()


def test_a_cancel_of_stop_quickens_it() -> None:
    with virtual_clock():
        server = TCPServer(hold).start()
        with client(server):
            settle()
            stopping = dhaga.spawn(server.stop)
            settle()
            stopping.cancel()
            stopping.join()
            assert isinstance(stopping.fault, dhaga.Cancelled)
            assert not server.connections


def test_stop_called_by_a_handler_does_not_wait_for_itself() -> None:
    def handler(sock: Any, peer: Any) -> None:
        if sock.recv(100) == b"stop":
            server.stop(5)
            sock.sendall(b"stopping")
        else:
            sock.recv(1)

    with virtual_clock() as clock:
        server = TCPServer(handler).start()
        with client(server) as idle:
            idle.sendall(b"wait")
            settle()
            assert ask(server, b"stop") == b"stopping"
            server.serve_forever()
            assert clock() == 5


def test_stop_from_another_os_thread() -> None:
    server = TCPServer(hold).start()
    with client(server) as sock:
        settle()
        thread = threading.Thread(target=server.stop, args=(0,))
        thread.start()
        server.serve_forever()
        assert sock.recv(1) == b""
        thread.join()


def test_stop_cannot_wait_in_a_coroutine_and_says_so_before_it_does_anything() -> None:
    async def main() -> bytes:
        server = TCPServer(echo).start()
        with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
            server.stop()
        assert not server.stopping
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"hello")
        answer = await reader.read(100)
        await run_in_dhaga(server.stop, 0)
        writer.close()
        return answer

    assert asyncio.run(main()) == b"hello"


def test_a_server_on_the_loop_of_a_host_ends_with_that() -> None:
    async def main() -> TCPServer:
        server = TCPServer(hold).start()
        _, writer = await asyncio.open_connection(*server.address)
        while not server.connections:
            await asyncio.sleep(0)
        writer.close()
        return server

    server = asyncio.run(main())
    assert server.stopping and not server.connections
    server.stop()
    assert not server.listeners


def test_serve_forever_ends_with_a_stop() -> None:
    server = TCPServer(echo)
    serving = dhaga.spawn(server.serve_forever)
    settle()
    assert ask(server) == b"hello"
    server.stop()
    assert serving.result() is None


def test_a_cancel_of_serve_forever_stops_the_server_gracefully() -> None:
    with virtual_clock() as clock:
        server = TCPServer(hold)
        serving = dhaga.spawn(server.serve_forever, 7)
        settle()
        with client(server):
            settle()
            serving.cancel()
            serving.join()
            assert clock() == 7
            assert isinstance(serving.fault, dhaga.Cancelled)


def test_the_end_of_a_block_lets_handlers_finish_for_a_while_and_an_error_does_not() -> None:
    with virtual_clock() as clock:
        with TCPServer(hold) as server, client(server):
            settle()
            server.__exit__(None, None, None)
            assert clock() == servers.GRACE
        with pytest.raises(ZeroDivisionError):
            with contextlib.ExitStack() as stack:
                server = stack.enter_context(TCPServer(hold))
                sock = standard.create_connection(server.address)
                settle()
                raise ZeroDivisionError
        sock.close()
        assert clock() == servers.GRACE


def test_connections_are_released_once_when_a_graceful_stop_begins() -> None:
    released = []

    class Releasing(TCPServer):
        def release(self, connection: Any) -> None:
            released.append(connection.peer)
            connection.sock.shutdown(socket.SHUT_RD)

    server = Releasing(hold).start()
    with client(server) as one, client(server) as other:
        settle()
        server.stop()
        server.stop()
        assert sorted(released) == sorted([one.getsockname(), other.getsockname()])


def test_a_stop_cut_short_at_any_park_leaves_nothing_behind() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        server = TCPServer(hold, max_connections=2).start()
        clients = [standard.create_connection(server.address) for _ in range(3)]
        settle()
        victim = dhaga.spawn(server.stop, 5)

        def check() -> None:
            server.stop()
            assert not server.connections and not server.acceptors and not server.listeners
            for sock in clients:
                sock.close()

        return victim, check

    assert cancel_at_every_park(scenario) == 2


def test_a_serve_forever_cut_short_at_any_park_leaves_nothing_behind() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        server = TCPServer(hold).start()
        sock = standard.create_connection(server.address)
        victim = dhaga.spawn(server.serve_forever, 5)

        def end() -> None:
            dhaga.sleep(1)
            server.stop(1)

        def check() -> None:
            assert not server.connections and not server.acceptors and not server.listeners
            sock.close()

        dhaga.spawn(end)
        return victim, check

    assert cancel_at_every_park(scenario) == 3


def test_ctrl_c_stops_a_server_gracefully() -> None:
    code = """
        import dhaga
        from dhaga import socket
        from dhaga.servers import TCPServer

        def handler(sock, peer):
            try:
                print(sock.recv(100), server.stopping)
            finally:
                print("handler ended")

        def talk():
            with socket.create_connection(server.address) as sock:
                print("ready")
                while not server.stopping:
                    dhaga.sleep(0.001)
                sock.sendall(b"after Ctrl-C")
                sock.recv(1)

        server = TCPServer(handler).start()
        talking = dhaga.spawn(talk)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("interrupted", server)
    """
    outcome = Program(code).interrupt_at("ready").outcome()
    assert (outcome.status, outcome.err) == (0, "")
    *trace, last = outcome.lines
    assert trace == ["b'after Ctrl-C' True", "handler ended"]
    assert last.startswith("interrupted <TCPServer") and last.endswith("stopped, 0 connections>")


def test_a_server_that_is_not_stopped_does_not_hold_up_the_exit() -> None:
    code = """
        import dhaga
        from dhaga import socket
        from dhaga.servers import TCPServer
        server = TCPServer(lambda sock, peer: sock.recv(1)).start()
        sock = socket.create_connection(server.address)
        dhaga.sleep(0.01)
        print(len(server.connections))
        sock.close()
    """
    assert prints(code) == ["1"]


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
            print("child", server.connections, server.stopping)
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
    assert prints(code) == ["b'before'", "child set() True", "b'after' False", "b'another'"]


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
