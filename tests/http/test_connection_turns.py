"""``concurrency``: so many requests in the app at once; the others wait for their turn, by arrival."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from dhaga import socket
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Event
from tests.http.wire import Answer, Start, get, hello, post, serving, to_the_end


class Gated:
    """An app whose requests stay in it until their gate opens."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.gates = [Event() for _ in range(5)]

    def __call__(self, environ: dict[str, Any], start_response: Start) -> list[bytes]:
        path = environ["PATH_INFO"]
        self.came.append(path)
        if environ["QUERY_STRING"] == "upgrade":
            environ["dhaga.upgrade"]()
        self.gates[int(path[1:])].wait()
        return hello(environ, start_response)


def asking(stack: ExitStack, server: Server, *targets: str) -> list[socket.socket]:
    """Send a request on a connection of its own, one after the other."""
    clients = []
    for target in targets:
        clients.append(stack.enter_context(socket.create_connection(server.address)))
        clients[-1].sendall(get(target, "Connection: close"))
        settle()
    return clients


def test_requests_get_their_turns_by_arrival() -> None:
    app = Gated()
    with serving(app, concurrency=2) as server, ExitStack() as stack:
        clients = asking(stack, server, "/0", "/1", "/2", "/3", "/4")
        assert app.came == ["/0", "/1"]
        for number in (1, 0, 3, 2, 4):
            app.gates[number].set()
            settle()
        assert app.came == ["/0", "/1", "/2", "/3", "/4"]
        assert [Answer(to_the_end(client)).status for client in clients] == ["200 OK"] * 5


def test_a_request_that_gets_no_turn_in_time_is_a_503() -> None:
    app = Gated()
    with serving(app, concurrency=1, limits=Limits(queue_timeout=0.01)) as server, ExitStack() as stack:
        first, late = asking(stack, server, "/0", "/1")
        assert Answer(to_the_end(late)).status == "503 Service Unavailable" and app.came == ["/0"]
        app.gates[0].set()
        assert Answer(to_the_end(first)).status == "200 OK"


def test_a_client_that_leaves_the_queue_costs_the_app_nothing() -> None:
    app = Gated()
    with serving(app, concurrency=1) as server, ExitStack() as stack:
        _, gone, _ = asking(stack, server, "/0", "/1", "/2")
        gone.close()
        for number in (0, 2):
            app.gates[number].set()
            settle()
    assert app.came == ["/0", "/2"]


@pytest.mark.logs
def test_an_app_that_fails_or_takes_the_connection_over_gives_its_turn_back() -> None:
    app = Gated()
    app.gates[0] = None
    with serving(app, concurrency=1) as server, ExitStack() as stack:
        failed, _, next_one = asking(stack, server, "/0", "/1?upgrade", "/2")
        assert Answer(to_the_end(failed)).status == "500 Internal Server Error" and app.came == ["/0", "/1", "/2"]
        app.gates[2].set()
        assert Answer(to_the_end(next_one)).status == "200 OK"
        app.gates[1].set()


def test_an_unread_body_that_has_not_come_yet_keeps_no_turn() -> None:
    with virtual_clock() as clock, serving(hello, concurrency=1) as server, ExitStack() as stack:
        slow, quick = (stack.enter_context(socket.create_connection(server.address)) for _ in range(2))
        slow.sendall(post(b"xyz")[:-1])
        assert Answer(slow.recv(65536)).status == "200 OK"
        quick.sendall(get("/", "Connection: close"))
        assert Answer(to_the_end(quick)).status == "200 OK"
        assert clock.now == 0


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="concurrency must be one or more"):
        Server(hello, concurrency=0)
    assert Server(hello).turns is None
