"""gevent's WSGIHandler, for subclasses: what a real client gets, and which methods are called."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from dhaga import socket
from dhaga.compat import gevent
from dhaga.compat.gevent.pywsgi import SecureEnviron, WSGIHandler, WSGIServer
from dhaga.threading import Event

SECONDS = 20

pytestmark = pytest.mark.usefixtures("all_end")


class Handler(WSGIHandler):
    """Makes a WSGIServer call handlers."""


@contextmanager
def serving(app: Callable[..., Any], handler: type[WSGIHandler] = Handler, **options: Any) -> Iterator[Any]:
    errors = io.StringIO()
    server = WSGIServer(("127.0.0.1", 0), app, log=None, error_log=errors, handler_class=handler, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def exchange(server: WSGIServer, sent: bytes) -> bytes:
    """Send requests, the last of which closes, and return all that comes."""
    received = b""
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(sent)
        # The system resets a connection that is closed before all was read.
        with suppress(ConnectionResetError):
            while data := client.recv(4096):
                received += data
    return received


def request(path: str = "/", *headers: str, body: bytes = b"", method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode() + body


CLOSE = "Connection: close"


def echo(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["REQUEST_METHOD"].encode(), b" ", environ["PATH_INFO"].encode("latin-1"), b" ", body]


def test_no_response_follows_one_that_the_app_has_cut_off_by_a_timeout() -> None:
    """The client would read the next response as the rest of this one."""
    cut_off = Event()

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        write = start_response("200 OK", [("Content-Length", "20000000")])
        if environ["PATH_INFO"] == "/first":
            try:
                with gevent.Timeout(0.01):
                    write(b"x" * 20_000_000)
            except gevent.Timeout:
                cut_off.set()
        return []

    with serving(app) as server, socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(request("/first") + request("/next", CLOSE))
        cut_off.wait()
        received = b""
        with suppress(ConnectionResetError):
            while data := client.recv(1 << 20):
                received += data
    assert received.count(b"HTTP/1.1") <= 1


@pytest.mark.parametrize("size", [20_000, 262_144, 270_000])
@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_what_is_left_unread_is_no_part_of_the_next_body(size: int, read: int, in_chunks: bool) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        data = environ["wsgi.input"].read(read if environ["PATH_INFO"] == "/left" else None)
        start_response("200 OK", [])
        return [b"got ", data]

    left = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"#" * size) if in_chunks else b"#" * size
    framing = "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {size}"
    with serving(app) as server:
        received = exchange(
            server,
            request("/left", framing, body=left)
            + request(method="GET")
            + request("/", "Content-Length: 4", CLOSE, body=b"mine"),
        )
    first, second, third = received.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert third.endswith(b"got mine") and b"#" not in second and first.count(b"#") == read


def test_requests_of_one_connection_are_answered_in_order() -> None:
    chunks = b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    with serving(echo) as server:
        received = exchange(
            server,
            request("/a%20b", "Content-Length: 3", body=b"xyz")
            + request("/chunks", "Transfer-Encoding: Chunked", body=chunks)
            + request("/last", CLOSE),
        )
    bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert bodies == [b"POST /a b xyz", b"POST /chunks abc", b"POST /last "]
    assert received.count(b"Content-Length: 13\r\n") == 1 and received.count(b"Connection: close") == 1


def test_what_an_app_yields_is_sent_in_chunks_and_to_http_1_0_up_to_the_close() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        write = start_response("200 OK", [])
        write(b"a")
        yield b""
        yield b"bc"

    with serving(app) as server:
        assert exchange(server, request("/", CLOSE)).endswith(b"\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")
        old = exchange(server, b"GET / HTTP/1.0\r\n\r\n")
        assert old.endswith(b"\r\n\r\nabc") and b"Transfer-Encoding" not in old
        head = exchange(server, request("/", CLOSE, method="HEAD"))
        assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP %\r\n\r\n", b"400"),
        (b"GET / HTTP/2.0\r\n\r\n", b"505"),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (request("/", "no header"), b"400"),
        (request("/", "Name : value"), b"400"),
        (request("/", "Content-Length: -1"), b"400"),
        (request("/", "Content-Length: 1", "Content-Length: 2"), b"400"),
        (request("/", "Transfer-Encoding: gzip"), b"400"),
        (request("/", "Transfer-Encoding: chunked", body=b"zz\r\n"), b"400"),
    ],
)
def test_what_is_no_request_is_answered_and_closed(sent: bytes, status: bytes) -> None:
    with serving(echo) as server:
        assert exchange(server, sent).startswith(b"HTTP/1.1 " + status)


def test_bytes_behind_a_bad_chunk_are_never_a_request() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ["wsgi.input"].read(2)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    smuggled = request("/inner", CLOSE)
    with serving(app) as server:
        received = exchange(server, request("/outer", "Transfer-Encoding: chunked", body=b"2\r\nab\r\n0" + smuggled))
    assert b"/outer" in received and b"/inner" not in received


def test_headers_with_an_underscore_and_proxy_are_dropped() -> None:
    seen: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        seen.update(environ)
        start_response("200 OK", [])
        return []

    headers = ("X-User: a", "X_User: b", "Proxy: p", "Cookie: a=1", "Cookie: b=2", "X-Two: 1", "X-Two: 2", CLOSE)
    with serving(app, environ={"my.key": "mine"}) as server:
        exchange(server, request("/p?q=1", *headers))
    assert (seen["HTTP_X_USER"], seen["HTTP_COOKIE"], seen["HTTP_X_TWO"]) == ("a", "a=1; b=2", "1,2")
    assert "HTTP_PROXY" not in seen
    assert (seen["QUERY_STRING"], seen["my.key"], seen["wsgi.input_terminated"]) == ("q=1", "mine", True)
    assert seen["REMOTE_ADDR"] == "127.0.0.1" and "CONTENT_LENGTH" not in seen


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        ("200 OK\r\nX: y", [], ValueError),
        ("200 OK", [("X", "y\r\nZ: 1")], ValueError),
        ("200 OK", [("X\n", "y")], ValueError),
        ("200 OK", [("X", b"bytes")], UnicodeError),
        ("200 OK", [("X", "\u20ac")], UnicodeError),
        ("304 Not Modified", [("Content-Length", "5")], AssertionError),
    ],
)
def test_start_response_refuses_what_would_split_the_answer(status: str, headers: Any, error: type) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        with pytest.raises(error):
            start_response(status, headers)
        start_response("200 Refused", [])
        return []

    with serving(app) as server:
        assert exchange(server, request("/", CLOSE)).startswith(b"HTTP/1.1 200 Refused\r\n")


def test_an_error_of_the_app_is_a_500_and_goes_to_the_hub_without_what_the_environ_holds() -> None:
    reported: list[Any] = []

    def app(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        if environ["PATH_INFO"] == "/late":
            yield b"begun"
        raise LookupError("the app's")

    hub: Any = gevent.get_hub()
    hub.handle_error = lambda *error: reported.append(error[:3])
    try:
        with serving(app) as server:
            assert exchange(server, request("/early")).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
            assert exchange(server, request("/late")).endswith(b"5\r\nbegun\r\n")  # no last chunk
            assert exchange(server, request("/early", method="HEAD")).endswith(b"\r\n\r\n")
    finally:
        del hub.handle_error
    assert [(type(context), kind, str(value)) for context, kind, value in reported] == [
        (SecureEnviron, LookupError, "the app's")
    ] * 3


def test_an_app_without_start_response_may_have_answered_by_itself() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        environ["wsgi.input"].rfile.raw._sock.sendall(b"mine")
        return []

    with serving(app) as server:
        assert exchange(server, request()) == b"mine"
        assert "did not call start_response" in server.error_log.getvalue()


def test_a_subclass_may_read_the_first_line_and_run_the_app_its_own_way() -> None:
    class Own(WSGIHandler):
        def read_requestline(self) -> Any:
            line = self.rfile.readline()
            if line == b"HELLO\n":
                self.socket.sendall(b"hello back")
                return None
            return line

        def run_application(self) -> None:
            self.environ["own"] = "yes"
            super().run_application()

    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [environ["own"].encode()]

    with serving(app, Own) as server:
        assert exchange(server, b"HELLO\n") == b"hello back"
        assert exchange(server, request("/", CLOSE)).endswith(b"\r\n\r\nyes")


def test_a_request_that_expects_100_gets_it_when_the_app_reads() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        refused = environ["PATH_INFO"] == "/refused"
        body = b"" if refused else environ["wsgi.input"].read()
        start_response("417 Expectation Failed" if refused else "200 OK", [])
        return [body]

    expects = ("Expect: 100-continue", "Content-Length: 2")
    with serving(app) as server:
        received = exchange(
            server, request("/refused", *expects, body=b"no") + request("/", CLOSE, *expects, body=b"ok")
        )
    answers = [line for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.1")]
    assert answers == [b"HTTP/1.1 417 Expectation Failed", b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK"]
    assert received.endswith(b"ok")


def test_lines_of_the_log_tell_client_request_status_and_length() -> None:
    log = io.StringIO()
    server = WSGIServer(("127.0.0.1", 0), echo, log=log, error_log=None, handler_class=Handler)
    server.start()
    exchange(server, request("/x", CLOSE))
    server.stop()
    line = log.getvalue()
    assert line.startswith("127.0.0.1 - - [") and '] "POST /x HTTP/1.1" 200 8 0.' in line


def test_a_response_is_cut_at_its_length_and_framed_by_the_server_alone() -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        length = [("Content-Length", "4")] if environ["PATH_INFO"] != "/own" else []
        start_response("200 OK", [*length, ("Transfer-Encoding", "chunked")])
        return [b"long", b"HTTP/1.1 200 Forged\r\n\r\n"] if environ["PATH_INFO"] == "/long" else [b"abc"]

    with serving(app) as server:
        long, short, own = (exchange(server, request(path) + request("/next")) for path in ("/long", "/short", "/own"))
    assert long.endswith(b"\r\n\r\nlong") and short.endswith(b"\r\n\r\nabc")  # and the connection ends
    assert not any(b"Transfer-Encoding" in each for each in (long, short, own)) and own.count(b"Content-Length: 3") == 1


def test_what_a_client_sends_cannot_colour_the_log() -> None:
    log = io.StringIO()
    server = WSGIServer(("127.0.0.1", 0), echo, log=log, error_log=None, handler_class=Handler)
    server.start()
    exchange(server, b"GET /\x1b[31m HTTP/1.1\r\n\r\n")
    server.stop()
    assert "\x1b" not in log.getvalue() and "x1b[31m" in log.getvalue()
