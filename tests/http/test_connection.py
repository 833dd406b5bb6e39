"""Connections of a server: kept, upgraded, left by their clients, and ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga.http._server import connection
from dhaga.http._server.connection import ServerConnection
from dhaga.http._server.request_parser import RequestParser
from dhaga.http._server.response import Response
from dhaga.http.wsgi import Server
from dhaga.threading import Event
from tests.http.wire import (
    TEXT,
    Answer,
    Start,
    answer,
    answers,
    ask,
    chunked,
    get,
    hello,
    post,
    serving,
    to_the_end,
)
from tests.kit.certificates import NAME, client_context, server_context
from tests.kit.tls import VERSIONS


def test_after_connect_comes_no_other_request() -> None:
    with serving(hello) as server:
        found = Answer(ask(server, get("x:80", method="CONNECT") + get()))
        assert (found.body, found.fields["connection"], found.rest) == (b"hello", "close", b"")


@pytest.mark.logs
def test_each_request_is_a_unit_of_work_also_if_the_app_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    trace: list[str] = []
    monkeypatch.setattr(connection, "begin_new_work", lambda: trace.append("begins"))
    monkeypatch.setattr(connection, "end_work", lambda: trace.append("ends"))

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        trace.append(environ["PATH_INFO"])
        if environ["PATH_INFO"] == "/fails":
            raise ZeroDivisionError
        return hello(environ, start_response)

    with serving(app) as server:
        ask(server, get("/works") + get("/fails"))
    assert trace == ["begins", "/works", "ends", "begins", "/fails", "ends"]


def test_nothing_of_a_conversation_is_left_for_the_garbage_collector() -> None:
    def left() -> list[object]:
        return [each for each in gc.get_objects() if type(each) in (RequestParser, ServerConnection, Response)]

    gc.collect()
    before = left()  # of tests before this one
    gc.disable()
    try:
        with serving(hello) as server:
            ask(server, get() + post(b"abc"))
            while server.connections:
                dhaga.sleep(0.001)
            assert left() == before
    finally:
        gc.enable()


def test_requests_in_a_row_are_answered_in_order_on_one_connection() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        dhaga.sleep(0.003 if environ["PATH_INFO"] == "/0" else 0)
        start_response("200 OK", list(TEXT))
        return [environ["PATH_INFO"].encode() + environ["wsgi.input"].read()]

    with serving(app) as server:
        data = b"".join(
            (get(f"/{n}"), post(b"x" * n, path=f"/{n}"), chunked(b"y", b"z", path=f"/{n}"))[n % 3] for n in range(30)
        )
        bodies = [each.body for each in answers(ask(server, data))]
    assert bodies == [f"/{n}".encode() + (b"", b"x" * n, b"yz")[n % 3] for n in range(30)]


@pytest.mark.parametrize(
    "version, fields, persists",
    [
        ("1.1", (), True),
        ("1.1", ("Connection: close",), False),
        ("1.1", ("Connection: Foo, CLOSE",), False),
        ("1.1", ("Connection: keep-alive", "Connection: close"), False),
        ("1.0", (), False),
        ("1.0", ("Connection: Keep-Alive",), True),
        ("1.0", ("Connection: keep-alive, close",), False),
    ],
)
def test_the_connection_goes_on_as_the_client_asks(version: str, fields: tuple[str, ...], persists: bool) -> None:
    with serving(hello) as server:
        data = ask(server, get("/", *fields, version=version) * 2)
    first = Answer(data)
    assert bool(first.rest) is persists
    assert first.fields.get("connection") == (("keep-alive" if version == "1.0" else None) if persists else "close")


def test_what_a_request_sets_in_its_context_the_next_does_not_see() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="unset")
    variable.set("by the server's starter")

    def app(environ: dict[str, Any], start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", list(TEXT))
        yield variable.get().encode()
        variable.set("by a request")
        dhaga.sleep(0)
        yield variable.get().encode()

    with serving(app) as server:
        bodies = {each.body for each in answers(ask(server, get() * 3))}
    assert bodies == {b"by the server's starterby a request"}


def test_the_end_of_the_server_ends_idle_connections_soon_and_busy_ones_with_their_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "IDLE_GRACE_SECONDS", 0.01)
    parked: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        if environ["PATH_INFO"] == "/busy":
            dhaga.park("the end", start=lambda: parked.append(dhaga.current()))
        return hello(environ, start_response)

    server = Server(app).start()
    with socket.create_connection(server.address) as idle, socket.create_connection(server.address) as busy:
        idle.sendall(get())
        assert idle.recv(65536).endswith(b"hello")
        busy.sendall(get("/busy") + get("/never"))
        while not parked:
            dhaga.sleep(0.001)
        stopper = dhaga.spawn(server.stop, 5)
        assert idle.recv(65536) == b""
        assert not stopper.has_ended
        parked[0].wake()
        data = b""
        while more := busy.recv(65536):
            data += more
        found = Answer(data)
        assert (found.body, found.fields["connection"], found.rest) == (b"hello", "close", b"")
    stopper.result()


@pytest.mark.parametrize("before", [b"", get()])
def test_a_request_that_crosses_the_end_of_the_server_is_answered(before: bytes) -> None:
    server = Server(hello).start()
    with socket.create_connection(server.address) as sock:
        sock.sendall(before)
        if before:
            assert sock.recv(65536).endswith(b"hello")
        while not server.http_connections:
            dhaga.sleep(0)
        stopper = dhaga.spawn(server.stop)
        while server.listeners:
            dhaga.sleep(0)
        sock.sendall(get())
        (answer,) = answers(to_the_end(sock))
        assert (answer.body, answer.fields["connection"]) == (b"hello", "close")
    stopper.result()


def test_an_upgrade_hands_over_the_connection_and_what_has_come() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        sock, data = environ["dhaga.upgrade"]()
        with pytest.raises(RuntimeError, match="once"):
            environ["dhaga.upgrade"]()
        while data:
            sock.sendall(data.upper())
            data = sock.recv(100)
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Upgrade: upper", "Connection: Upgrade") + b"abc")
        assert sock.recv(100) == b"ABC"
        sock.sendall(get())
        assert sock.recv(100) == get().upper()
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_graceful_stop_ends_what_an_app_receives_from_a_connection_taken_over(when: str) -> None:
    begun, may_take, taken = Event(), Event(), Event()

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        begun.set()
        assert may_take.wait(30)
        sock, _ = environ["dhaga.upgrade"]()
        taken.set()
        while data := sock.recv(100):
            sock.sendall(data.upper())
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get("/", "Upgrade: upper", "Connection: Upgrade"))
        assert begun.wait(30)
        if when == "before":
            may_take.set()
            assert taken.wait(30)
            sock.sendall(b"abc")
            assert sock.recv(100) == b"ABC"
        stopper = dhaga.spawn(server.stop, 1000)
        while not server.stopping or server.listeners:
            dhaga.sleep(0.001)
        may_take.set()
        stopper.result(30)
        assert sock.recv(100) == b""


def test_an_upgrade_of_an_ended_request_does_not_take_the_next_ones_connection() -> None:
    kept: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        kept.append(environ["dhaga.upgrade"])
        if environ["PATH_INFO"] == "/next":
            with pytest.raises(RuntimeError, match="can be taken over only"):
                kept[0]()
        return hello(environ, start_response)

    with serving(app) as server:
        assert [each.body for each in answers(ask(server, get() + get("/next")))] == [b"hello"] * 2


@pytest.mark.logs
def test_an_upgrade_before_the_end_of_the_body_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    app = lambda e, s: [e["dhaga.upgrade"]()]  # noqa: E731
    assert answer(app, post(b"abc", "Upgrade: a", "Connection: Upgrade")).status == "500 Internal Server Error"
    assert "read the request's body" in caplog.text


def test_an_app_can_ask_whether_its_client_has_left() -> None:
    seen: list[bool] = []
    kept: list[dict[str, Any]] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        seen.append(environ["dhaga.disconnected"]())
        while not environ["dhaga.disconnected"]():
            dhaga.sleep(0.001)
        seen.append(True)
        kept.append(environ)
        return hello(environ, start_response)

    with serving(app) as server:
        with socket.create_connection(server.address) as sock:
            sock.sendall(get())
            while not seen:
                dhaga.sleep(0.001)
        while server.connections:
            dhaga.sleep(0.001)
    assert seen == [False, True]
    assert kept[0]["dhaga.disconnected"]()


def test_a_client_that_leaves_is_no_error_and_the_app_hears_of_it() -> None:
    heard: list[BaseException] = []

    def app(environ: dict[str, Any], start_response: Start) -> Iterator[bytes]:
        start_response("200 OK", list(TEXT))
        try:
            while True:
                yield b"x" * 10_000
        except GeneratorExit as error:
            heard.append(error)
            raise

    with serving(app) as server:
        with socket.create_connection(server.address) as sock:
            sock.sendall(get())
            sock.recv(100)
        while server.connections:
            dhaga.sleep(0.001)
    assert heard


def test_no_response_follows_one_that_the_app_has_cut_off_by_a_timeout() -> None:
    """The client would read the next response as the rest of this one."""
    data = b"x" * 20_000_000
    cut_off = Event()

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        if environ["PATH_INFO"] == "/next":
            return hello(environ, start_response)
        write = start_response("200 OK", [*TEXT, ("Content-Length", str(len(data)))])
        try:
            with dhaga.Timeout(0.01):
                write(data)
        except TimeoutError:
            cut_off.set()
        return []

    with serving(app) as server, socket.create_connection(server.address) as sock:
        sock.sendall(get() + get("/next", "Connection: close"))
        cut_off.wait()
        assert b"hello" not in to_the_end(sock)


def test_a_request_that_came_too_early_does_not_reset_the_last_response() -> None:
    answering, pipelined = Event(), Event()
    body = b"x" * 1_000_000  # more than the client's buffer holds

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        answering.set()
        pipelined.wait()
        start_response("200 OK", list(TEXT))
        return [body]

    with serving(app) as server, socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
        sock.connect(server.address)
        sock.sendall(get("/", "Connection: close"))
        answering.wait()
        sock.sendall(get())
        pipelined.set()
        sock.recv(1, socket.MSG_PEEK)
        for _ in range(100):
            dhaga.sleep(0)  # an immediate close would discard the rest of the response here
        assert Answer(to_the_end(sock)).body == body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("unread", [b"", b"x" * 1000, b"x" * 100_000])
def test_over_tls_the_end_of_the_response_is_no_truncation_also_if_a_body_was_not_read(
    version: Any, unread: bytes
) -> None:
    """OpenSSL's error for a missing close_notify would be an SSLEOFError."""
    with serving(hello, ssl_context=server_context()) as server:
        plain = socket.create_connection(server.address)
        with client_context(version).wrap_socket(plain, server_hostname=NAME, suppress_ragged_eofs=False) as sock:
            sock.sendall(get("/", "Connection: close", f"Content-Length: {len(unread) * 2}", method="POST") + unread)
            assert Answer(to_the_end(sock)).body == b"hello"
