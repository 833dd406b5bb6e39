"""A burst of connections is accepted within two rounds of the run queue, and shared where several servers accept."""

from __future__ import annotations

import contextlib
import io
import socket as standard
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga.http.wsgi import Server
from dhaga.servers import TCPServer
from dhaga.servers._acceptor import ASSUMED_WAITING, sharers_at, waiting_at
from dhaga.socket import create_server

BURST = 90
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Rounds:
    """A dhaga that computes all the time counts rounds of the run queue; each accepted connection notes its round."""

    def __init__(self) -> None:
        self.now = 0
        self.served: list[int] = []

    def compute(self) -> None:
        while len(self.served) < BURST:
            self.now += 1
            dhaga.sleep(0)

    def handle(self, *args: Any) -> None:
        self.served.append(self.now)

    def noted(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        """Return what notes the round and calls ``handle``."""
        return lambda *args: (self.handle(), handle(*args))


def app(environ: Any, start_response: Callable[..., Any]) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "0")])
    return []


@contextlib.contextmanager
def tcp_server(rounds: Rounds) -> Iterator[Any]:
    with TCPServer(rounds.handle) as server:
        yield server.address


@contextlib.contextmanager
def wsgi_server(rounds: Rounds) -> Iterator[Any]:
    with Server(app) as server:
        server.handler = rounds.noted(server.handler)
        yield server.address


@contextlib.contextmanager
def gevents_stream_server(rounds: Rounds) -> Iterator[Any]:
    from dhaga.compat.gevent.server import StreamServer

    server = StreamServer(("127.0.0.1", 0), rounds.handle)
    server.start()
    yield server.address
    server.stop()


@contextlib.contextmanager
def gevents_pywsgi(rounds: Rounds) -> Iterator[Any]:
    from dhaga.compat.gevent.pool import Pool
    from dhaga.compat.gevent.pywsgi import WSGIServer

    server = WSGIServer(("127.0.0.1", 0), app, log=None, spawn=Pool())  # stop() waits for the handlers of a pool
    server.set_handle(rounds.noted(server.handle))
    server.start()
    yield server.address
    server.stop()


@contextlib.contextmanager
def eventlets_wsgi(rounds: Rounds) -> Iterator[Any]:
    from dhaga.compat import eventlet

    listener = eventlet.listen(("127.0.0.1", 0), backlog=BURST)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eventlet.wsgi.Server, "process_request", rounds.noted(eventlet.wsgi.Server.process_request))
        serving = eventlet.spawn(eventlet.wsgi.server, listener, app, log=io.StringIO())
        yield listener.getsockname()
        serving.kill()
    listener.close()


@pytest.mark.parametrize("serve", [tcp_server, wsgi_server, gevents_stream_server, gevents_pywsgi, eventlets_wsgi])
def test_a_burst_is_accepted_within_two_rounds_of_those_who_compute(serve: Callable[[Rounds], Any]) -> None:
    rounds = Rounds()
    with serve(rounds) as address, contextlib.ExitStack() as clients:
        dhaga.sleep(0.01)  # the acceptor has parked
        connect(clients, address)
        computing = dhaga.spawn(rounds.compute)
        computing.join()
    assert len(rounds.served) == BURST
    assert rounds.served[-1] - rounds.served[0] <= 2


@pytest.mark.parametrize("kind", ["TCP", "Unix"])
def test_acceptors_that_share_a_listener_have_equal_shares_of_a_burst(kind: str, tmp_path: Any) -> None:
    count, rounds, taken = 3, Rounds(), Counter[int]()

    def handler(number: int) -> Callable[..., object]:
        return lambda sock, peer: (taken.update([number]), rounds.handle())

    with contextlib.ExitStack() as stack:
        if kind == "TCP":
            listener = stack.enter_context(create_server(("127.0.0.1", 0), backlog=BURST))
        else:
            listener = stack.enter_context(standard.socket(standard.AF_UNIX))
            listener.bind(str(tmp_path / "listener"))
            listener.listen(BURST)
        for number in range(count):
            stack.enter_context(TCPServer(handler(number), listener))
        dhaga.sleep(0.01)
        connect(stack, listener.getsockname(), listener.family)
        dhaga.spawn(rounds.compute).join()
        assert rounds.served[-1] - rounds.served[0] <= 2
        if kind == "TCP":
            assert sorted(taken.values()) == [BURST // count] * count
        else:  # their number is assumed
            assert taken.most_common()[-1][1] >= ASSUMED_WAITING // count
    assert not sharers_at


def test_one_of_several_processes_leaves_the_others_their_share_for_one_round() -> None:
    rounds = Rounds()
    with TCPServer(rounds.handle) as server, contextlib.ExitStack() as clients:
        server.processes = 3
        dhaga.sleep(0.01)
        connect(clients, server.address)
        dhaga.spawn(rounds.compute).join()
    first, rest = Counter(rounds.served).most_common()[1], Counter(rounds.served).most_common()[0]
    assert (first[1], rest[1]) == (BURST // 3, BURST - BURST // 3)
    assert 1 <= rest[0] - first[0] <= 2


def test_the_next_burst_after_a_share_is_shared_anew() -> None:
    """What the others have left is taken in the next turn only, not whenever it comes."""
    rounds = Rounds()
    with TCPServer(rounds.handle) as server:
        server.processes = 2
        for _ in range(2):
            rounds.served.clear()
            dhaga.sleep(0.01)
            with contextlib.ExitStack() as clients:
                connect(clients, server.address)
                dhaga.spawn(rounds.compute).join()
            assert Counter(rounds.served)[rounds.served[0]] == BURST // 2


def test_the_number_of_waiting_connections_is_asked_of_the_system() -> None:
    with create_server(("127.0.0.1", 0), backlog=10) as listener, contextlib.ExitStack() as clients:
        assert waiting_at(listener) == 0
        for number in range(1, 4):
            clients.enter_context(standard.create_connection(listener.getsockname()))
            assert waiting_at(listener) == number


def connect(clients: contextlib.ExitStack, address: Any, family: Any = standard.AF_INET) -> None:
    """Connect without a turn for others: all wait in the backlog, each with a request sent."""
    for _ in range(BURST):
        sock = clients.enter_context(standard.socket(family))
        sock.connect(address)
        sock.send(REQUEST)
