"""The end of a server: graceful, quickened, cancelled, by Ctrl-C and at exit."""

from __future__ import annotations

import asyncio
import contextlib
import socket as standard
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.aio import run_in_dhaga
from dhaga.servers import TCPServer
from dhaga.servers import _tcp as servers
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from tests.kit.scripts import Program, prints
from tests.kit.servers import ask, client, echo, hold


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
    with pytest.raises(RuntimeError, match="already started"):
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
            assert isinstance(stopping._error, dhaga.Cancelled)
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
            assert isinstance(serving._error, dhaga.Cancelled)


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
        while not server.connections:
            dhaga.sleep(0.001)
        print(len(server.connections))
        sock.close()
    """
    assert prints(code) == ["1"]
