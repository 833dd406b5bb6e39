"""Server against PEP 3333 and RFC 9112: environs, several requests on a connection, upgrades, logs."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest

import dhaga
from dhaga import socket
from dhaga.http import conversations
from dhaga.http.conversations import Conversation
from dhaga.http.limits import Limits
from dhaga.http.messages import Messages
from dhaga.http.responses import Response
from dhaga.http.wsgi import Server
from tests.certificates import NAME, client_context, server_context
from tests.http.wire import (
    TEXT,
    Answer,
    answer,
    answers,
    ask,
    chunked,
    get,
    hello,
    post,
    returning,
    serving,
    to_the_end,
)

Start = Callable[..., Any]


def environ_of(data: bytes, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        found.update(environ)
        return hello(environ, start_response)

    assert answer(app, data, **options).status == "200 OK"
    return found


# ---- environs


def test_the_environ_has_what_pep_3333_asks_for() -> None:
    found = environ_of(get("/a%20%C3%A4/b?c=%20d", "Content-Type: text/x", "X-Some-Thing: a  ", "A:"))
    assert (found["REQUEST_METHOD"], found["SERVER_PROTOCOL"]) == ("GET", "HTTP/1.1")
    assert (found["SCRIPT_NAME"], found["PATH_INFO"]) == ("", "/a Ã¤/b")
    assert (found["QUERY_STRING"], found["REQUEST_URI"]) == ("c=%20d", "/a%20%C3%A4/b?c=%20d")
    assert (found["CONTENT_TYPE"], found["HTTP_X_SOME_THING"], found["HTTP_A"]) == ("text/x", "a", "")
    assert "HTTP_CONTENT_TYPE" not in found and "CONTENT_LENGTH" not in found
    assert found["SERVER_NAME"] == found["REMOTE_ADDR"] == "127.0.0.1"
    assert int(found["SERVER_PORT"]) > 0 < int(found["REMOTE_PORT"])
    assert (found["wsgi.version"], found["wsgi.url_scheme"]) == ((1, 0), "http")
    assert (found["wsgi.multithread"], found["wsgi.multiprocess"], found["wsgi.run_once"]) == (True, False, False)
    assert found["wsgi.input"].read() == b"" and found["wsgi.errors"] is sys.stderr


def test_fields_of_one_name_are_joined_cookies_by_a_semicolon() -> None:
    found = environ_of(get("/", "A: b", "a: c", "Cookie: d=e", "Cookie: f=g"))
    assert (found["HTTP_A"], found["HTTP_COOKIE"]) == ("b, c", "d=e; f=g")


def test_fields_that_would_pass_for_others_do_not_reach_the_app() -> None:
    found = environ_of(get("/", "X_Forwarded_For: liar", "X-Forwarded-For: proxy", "Content_Length: 5", "Proxy: evil"))
    assert found["HTTP_X_FORWARDED_FOR"] == "proxy"
    assert "CONTENT_LENGTH" not in found and "HTTP_PROXY" not in found


@pytest.mark.parametrize(
    "method, target, path, query, host",
    [
        ("GET", "http://y:80/a?b", "/a", "b", "y:80"),
        ("GET", "HTTPS://y", "/", "", "y"),
        ("GET", "http://y?b", "/", "b", "y"),
        ("OPTIONS", "*", "", "", "x"),
        ("CONNECT", "y:443", "", "", "x"),
        ("GET", "//a", "//a", "", "x"),
        ("GET", "/?a?b", "/", "a?b", "x"),
        ("GET", "/%zz%", "/%zz%", "", "x"),
    ],
)
def test_every_form_of_a_target_is_understood(method: str, target: str, path: str, query: str, host: str) -> None:
    found = environ_of(get(target, method=method))
    assert (found["PATH_INFO"], found["QUERY_STRING"], found["HTTP_HOST"]) == (path, query, host)


def test_over_tls_the_scheme_says_so() -> None:
    found: list[Any] = []

    def app(environ: dict[str, Any], start_response: Start) -> Any:
        found.append(environ["wsgi.url_scheme"])
        start_response("200 OK", list(TEXT))
        with open(__file__, "rb") as file:
            yield from environ["wsgi.file_wrapper"](file)

    with serving(app, ssl_context=server_context()) as server, socket.create_connection(server.address) as sock:
        with client_context().wrap_socket(sock, server_hostname=NAME) as tls:
            tls.sendall(get("/", "Connection: close"))
            data = b""
            while more := tls.recv(65536):
                data += more
    assert found == ["https"] and Answer(data).body == Path(__file__).read_bytes()


def test_a_server_at_a_unix_socket_serves(tmp_path: Path) -> None:
    with Server(hello, str(tmp_path / "s")) as server:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(tmp_path / "s"))
            sock.sendall(get())
            assert sock.recv(65536).endswith(b"hello")
        assert server.connections


# ---- connections


def test_after_connect_comes_no_other_request() -> None:
    with serving(hello) as server:
        found = Answer(ask(server, get("x:80", method="CONNECT") + get()))
        assert (found.body, found.fields["connection"], found.rest) == (b"hello", "close", b"")


def test_nothing_of_a_conversation_is_left_for_the_garbage_collector() -> None:
    def left() -> list[object]:
        return [each for each in gc.get_objects() if type(each) in (Messages, Conversation, Response)]

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
    monkeypatch.setattr(conversations, "LAST_CALL", 0.01)
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
        assert not stopper.done
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
        while not server.conversations:
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


@pytest.mark.logs
def test_an_upgrade_before_the_end_of_the_body_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    app = lambda e, s: [e["dhaga.upgrade"]()]  # noqa: E731
    assert answer(app, post(b"abc", "Upgrade: a", "Connection: Upgrade")).status == "500 Internal Server Error"
    assert "read the request's body" in caplog.text


def test_an_app_can_ask_whether_its_client_has_left() -> None:
    seen: list[bool] = []

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        seen.append(environ["dhaga.disconnected"]())
        while not environ["dhaga.disconnected"]():
            dhaga.sleep(0.001)
        seen.append(True)
        return hello(environ, start_response)

    with serving(app) as server:
        with socket.create_connection(server.address) as sock:
            sock.sendall(get())
            while not seen:
                dhaga.sleep(0.001)
        while server.connections:
            dhaga.sleep(0.001)
    assert seen == [False, True]


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


# ---- logs, options


def test_the_access_log_tells_each_request_and_nobody_can_forge_a_line() -> None:
    lines: list[str] = []
    fields = 'Referer: a"b\\', "User-Agent: ä"
    with serving(hello, access_log=lines.append) as server:
        ask(server, get("/a?b") + get('/c"', *fields, method="POST"))
    first, second = lines
    assert first.startswith("127.0.0.1 - - [") and first.endswith('] "GET /a?b HTTP/1.1" 200 5 "-" "-"')
    assert second.endswith('] "POST /c\\" HTTP/1.1" 200 5 "a\\"b\\\\" "\\xe4"')


def test_the_access_log_goes_to_a_logger_or_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer(hello, access_log=True)
    assert [r.name for r in caplog.records if "GET / HTTP/1.1" in r.getMessage()] == ["dhaga.access"]
    with (tmp_path / "log").open("w+") as file:
        answer(hello, access_log=file)
        file.seek(0)
        assert file.read().count("\n") == 1


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="WSGI app"):
        Server(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="access log"):
        Server(hello, access_log=3)
    with pytest.raises(ValueError, match="idle_timeout"):
        Limits(idle_timeout=0)
    with pytest.raises(ValueError, match="head must be a number"):
        Limits(head=None)  # type: ignore[arg-type]


def test_two_servers_in_two_os_threads_serve_at_once() -> None:
    servers = [Server(hello), Server(hello)]
    with dhaga.Scheduler("one") as one, dhaga.Scheduler("other") as other:
        for scheduler, server in zip((one, other), servers, strict=True):
            scheduler.spawn(server.start).result()
        asked = [dhaga.spawn(ask, server, get() * 20) for server in servers * 3]
        assert [len(answers(each.result())) for each in asked] == [20] * 6
        for server in servers:
            server.stop(1)


@pytest.mark.filterwarnings("ignore::wsgiref.validate.WSGIWarning")
def test_the_validator_of_the_standard_library_has_nothing_to_say() -> None:
    def app(environ: dict[str, Any], start_response: Start) -> Any:
        data = environ["wsgi.input"].read(10)
        more = [*environ["wsgi.input"].readlines(), environ["wsgi.input"].readline()]
        environ["wsgi.errors"].write("")
        start_response("200 OK", list(TEXT))
        return iter([data, *more])

    with serving(validator(app)) as server:
        sent = get() + get("*", method="OPTIONS") + post(b"x" * 20 + b"\ny") + chunked(b"abc") + get(method="HEAD")
        found = ask(server, sent)
    assert found.count(b"HTTP/1.1 200 OK") == 5 and b"AssertionError" not in found


def test_tabs_and_latin_1_are_sent_as_they_are() -> None:
    assert answer(returning([b""], ("X-A", "a\tä"))).fields["x-a"] == "a\tä"
