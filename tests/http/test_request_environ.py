"""Request lines and fields in the environ."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dhaga import socket
from dhaga.http._server.request_environ import REQUEST_KEYS
from dhaga.http.wsgi import Server
from tests.http.wire import (
    TEXT,
    Answer,
    Start,
    answer,
    get,
    hello,
    serving,
)
from tests.kit.certificates import NAME, client_context, server_context


def environ_of(data: bytes, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def app(environ: dict[str, Any], start_response: Start) -> list[bytes]:
        found.update(environ)
        return hello(environ, start_response)

    assert answer(app, data, **options).status == "200 OK"
    return found


def test_each_key_that_a_request_sets_has_its_value() -> None:
    for data in (get(), get("http://y/", version="1.0"), get("*", method="OPTIONS")):
        found = environ_of(data)
        assert found.keys() > set(REQUEST_KEYS) and None not in found.values()


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
