"""The light client of the load tester, against servers that answer in all the ways there are."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dhaga
from dhaga.http.wsgi import Server
from dhaga.servers import TCPServer
from examples.load.error_labels import said
from examples.load.light_client import Session
from examples.load.wire import CutOff


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    path, headers, body = environ["PATH_INFO"], [], [b"hello"]
    status = "200 OK"
    if path == "/gzip":
        headers, body = [("Content-Encoding", "gzip")], [gzip.compress(b"packed")]
    elif path == "/deflate":
        headers, body = [("Content-Encoding", "deflate")], [zlib.compress(b"packed")]
    elif path == "/raw":
        headers, body = [("Content-Encoding", "deflate")], [zlib.compress(b"packed", wbits=-15)]
    elif path == "/latin":
        headers, body = [("Content-Type", "text/plain; charset=latin-1")], ["grüße".encode("latin-1")]
    elif path == "/moved":
        status, headers = "302 Found", [("Location", "/echo?moved")]
    elif path == "/kept":
        status, headers = "307 Temporary Redirect", [("Location", "/echo")]
    elif path == "/circle":
        status, headers = "302 Found", [("Location", "/circle")]
    elif path == "/login":
        headers = [("Set-Cookie", "user=7; Path=/"), ("Set-Cookie", "old=; Max-Age=0; Path=/")]
    elif path == "/none":
        status, body = "204 No Content", []
    elif path == "/pieces":
        body = [b"a" * 1000] * 100
    elif path == "/missing":
        status = "404 Not Found"
    elif path == "/echo":
        told = {
            key: str(environ.get(key, "")) for key in ("REQUEST_METHOD", "QUERY_STRING", "CONTENT_TYPE", "HTTP_COOKIE")
        }
        told |= {"HTTP_X_SENT": environ.get("HTTP_X_SENT", ""), "peer": environ["REMOTE_PORT"]}
        body = [json.dumps(told | {"body": environ["wsgi.input"].read().decode()}).encode()]
    start_response(status, headers)
    return body


Ask = Callable[..., Any]


@pytest.fixture
def ask() -> Iterator[Ask]:
    session = Session()
    with Server(app) as server:

        def asking(path: str, method: str = "GET", **options: Any) -> Any:
            return session.request(method, "http://{}:{}".format(*server.address) + path, **options)

        yield asking
        session.close()


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/raw"])
def test_what_is_compressed_is_unpacked(ask: Ask, path: str) -> None:
    assert ask(path).content == b"packed"


# ---- connections


@contextmanager
def saying(*answers: bytes) -> Iterator[tuple[Session, str, list[bytes]]]:
    """A server that gives each connection the next answer for a request, and hangs up after it."""
    left, seen = list(answers), []

    def handler(sock: Any, peer: object) -> None:
        seen.append(sock.recv(65536))
        sock.sendall(left.pop(0))

    session = Session()
    with TCPServer(handler) as server:
        yield session, "http://{}:{}/".format(*server.address), seen
        session.close()


HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    with saying(HELLO, HELLO) as (session, url, seen):
        assert [session.request("GET", url).text for _ in range(2)] == ["hello"] * 2
    assert len(seen) == 2


def test_what_must_not_be_sent_twice_is_not() -> None:
    with saying(HELLO, b"", HELLO) as (session, url, seen):
        session.request("GET", url)
        with pytest.raises(CutOff) as caught:
            session.request("POST", url, data="x")
        assert session.request("POST", url, data="y").text == "hello"
    assert said(caught.value) == "connection closed without an answer"
    assert [each[:4] for each in seen] == [b"GET ", b"POST", b"POST"]


def test_an_answer_that_ends_with_its_connection_is_whole() -> None:
    with saying(b"HTTP/1.1 200 OK\r\n\r\nhello") as (session, url, _):
        assert session.request("GET", url).text == "hello"


@pytest.mark.parametrize("answer", [HELLO[:-1], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", b""])
def test_an_answer_that_is_cut_off_is_an_error(answer: bytes) -> None:
    with saying(answer) as (session, url, _), pytest.raises(CutOff):
        session.request("GET", url)


def test_a_request_that_is_cancelled_closes_its_connection() -> None:
    with saying(HELLO[:-1]) as (session, url, _):
        asking = dhaga.spawn(session.request, "GET", url)
        dhaga.sleep(0)
        asking.cancel()
        asking.join()
        assert not any(session.idle.values())
