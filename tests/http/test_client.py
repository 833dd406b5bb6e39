"""HTTPClient against Tornado's own server, which runs in the same loop, and against sockets that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket as stdsocket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tornado
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

import dhaga
from dhaga.http import HTTPClient
from tests.parking import parked


@pytest.fixture(autouse=True)
def no_access_log() -> Iterator[None]:
    access = logging.getLogger("tornado.access")
    access.disabled = True
    yield
    access.disabled = False


class Hello(RequestHandler):
    def get(self) -> None:
        self.set_header("X-Seen", self.request.headers.get("X-Sent", ""))
        self.write("hello " * 200)

    def post(self) -> None:
        self.write(self.request.body)


class Moved(RequestHandler):
    def get(self) -> None:
        self.redirect("/")


class Broken(RequestHandler):
    def get(self) -> None:
        self.send_error(503)


class Gathering(RequestHandler):
    """Answers when as many have come as are expected: they have all to be on their way at once."""

    here = 0
    complete: asyncio.Event

    async def get(self, expected: str) -> None:
        Gathering.here += 1
        if Gathering.here == int(expected):
            Gathering.complete.set()
        await Gathering.complete.wait()
        self.write("all")


class Pieces(RequestHandler):
    async def get(self) -> None:
        for piece in (b"a" * 10, b"b" * 10):
            self.write(piece)
            await self.flush()
            await asyncio.sleep(0.01)


class Server:
    """A Tornado server in an OS thread of its own, so that a caller that blocks its thread is served, too."""

    def __init__(self) -> None:
        self.scheduler = dhaga.Scheduler("server").start()
        self.run(self.listen)

    def run(self, fn: Any) -> Any:
        return self.scheduler.spawn(lambda: dhaga.await_(fn())).result()

    async def listen(self) -> None:
        sock, self.port = bind_unused_port(address="127.0.0.1")
        Gathering.here, Gathering.complete = 0, asyncio.Event()
        routes = [("/", Hello), ("/moved", Moved), ("/broken", Broken), ("/pieces", Pieces), (r"/all/(\d+)", Gathering)]
        self.http = HTTPServer(Application(routes, compress_response=True))
        self.http.add_sockets([sock])
        sock, self.tls_port = bind_unused_port(address="127.0.0.1")
        folder = Path(tornado.__file__).parent / "test"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "test.crt", folder / "test.key")
        self.https = HTTPServer(Application(routes), ssl_options=context)
        self.https.add_sockets([sock])

    async def close(self) -> None:
        self.http.stop()
        self.https.stop()
        await self.http.close_all_connections()
        await self.https.close_all_connections()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.run(server.close)
    server.scheduler.stop()


@pytest.fixture
def client() -> Iterator[HTTPClient]:
    with HTTPClient() as client:
        yield client


class Silent:
    """A listener that takes one connection, and never answers."""

    def __init__(self) -> None:
        self.sock = stdsocket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.sock.getsockname()[1]}/"

    def accept(self) -> stdsocket.socket:
        peer = self.sock.accept()[0]
        peer.settimeout(30)
        return peer


@pytest.fixture
def silent() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.sock.close()


def error_of(fn: Any, *args: Any, **kwargs: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        fn(*args, **kwargs)
    return caught.value


def waiting_at(silent: Silent, client: HTTPClient, **options: Any) -> tuple[dhaga.Dhaga, stdsocket.socket]:
    """Return a dhaga whose request has reached the other side, and the connection there."""
    fetching = parked(client.fetch, silent.url, **options)
    peer = dhaga.offload(silent.accept)
    assert dhaga.offload(peer.recv, 3) == b"GET"
    return fetching, peer


def ends(peer: stdsocket.socket) -> bool:
    """Read until the other side has closed."""
    while dhaga.offload(peer.recv, 65536):
        pass
    peer.close()
    return True


def test_fetch_in_main_code_and_in_a_dhaga_returns_the_response(server: Server, client: HTTPClient) -> None:
    for response in (client.fetch(server.url()), dhaga.spawn(client.fetch, server.url()).result()):
        assert (response.code, response.body) == (200, b"hello " * 200)


def test_fetch_in_a_plain_thread_leaves_no_loop_and_no_thread(server: Server, client: HTTPClient) -> None:
    bodies: list[bytes] = []
    threads = [threading.Thread(target=lambda: bodies.append(client.fetch(server.url()).body)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bodies == [b"hello " * 200] * 4  # what is left, nothing_left sees


def test_fetch_in_a_coroutine_is_refused_at_once(client: HTTPClient) -> None:
    async def main() -> None:
        client.fetch("http://127.0.0.1:1/")

    with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
        asyncio.run(main())


def test_options_are_those_of_tornado(server: Server, client: HTTPClient) -> None:
    assert client.fetch(server.url(), headers={"X-Sent": "yes"}).headers["X-Seen"] == "yes"
    assert client.fetch(server.url(), method="POST", body=b"data").body == b"data"
    assert client.fetch(HTTPRequest(server.url(), method="POST", body=b"more")).body == b"more"


@pytest.mark.logs
def test_certificates_are_verified_unless_asked_not_to(server: Server, client: HTTPClient) -> None:
    url = f"https://127.0.0.1:{server.tls_port}/"
    with pytest.raises(ssl.SSLError):
        client.fetch(url)
    assert client.fetch(url, validate_cert=False).code == 200


def test_names_are_resolved_as_the_settings_say(server: Server) -> None:
    with HTTPClient(hostname_mapping={"nowhere.example": "127.0.0.1"}) as client:
        assert client.fetch(f"http://nowhere.example:{server.port}/").code == 200


def test_redirects_are_followed_or_not(server: Server, client: HTTPClient) -> None:
    response = client.fetch(server.url("/moved"))
    assert (response.code, response.effective_url) == (200, server.url("/"))
    assert client.fetch(server.url("/moved"), raise_error=False, follow_redirects=False).code == 302


def test_what_comes_compressed_is_expanded_unless_asked_for(server: Server, client: HTTPClient) -> None:
    assert client.fetch(server.url()).headers["X-Consumed-Content-Encoding"] == "gzip"
    raw = client.fetch(server.url(), decompress_response=False, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(raw.body) == b"hello " * 200


def test_raise_error_decides_about_error_codes(server: Server, client: HTTPClient) -> None:
    with pytest.raises(HTTPClientError) as caught:
        client.fetch(server.url("/broken"))
    assert caught.value.code == client.fetch(server.url("/broken"), raise_error=False).code == 503


def test_callbacks_get_headers_and_pieces(server: Server, client: HTTPClient) -> None:
    lines: list[str] = []
    pieces: list[bytes] = []
    options = {"header_callback": lines.append, "streaming_callback": pieces.append}
    response = client.fetch(server.url("/pieces"), decompress_response=False, **options)
    assert (response.body, b"".join(pieces)) == (b"", b"a" * 10 + b"b" * 10)
    assert lines[0].startswith("HTTP/1.1 200") and len(pieces) == 2


def test_far_more_than_ten_are_on_their_way_at_once(server: Server, client: HTTPClient) -> None:
    fetches = [dhaga.spawn(client.fetch, server.url("/all/200")) for _ in range(200)]
    assert [fetch.result().body for fetch in fetches] == [b"all"] * 200


def test_max_clients_bounds_them(silent: Silent, server: Server) -> None:
    with HTTPClient(max_clients=1) as client:
        first, peer = waiting_at(silent, client)
        second = parked(client.fetch, server.url())
        assert "semaphore.acquire" in repr(second)
        first.cancel()
        assert second.result().code == 200
        assert ends(peer)
        with pytest.raises(dhaga.Cancelled):
            first.result()


def test_a_cancel_closes_the_connection(silent: Silent, client: HTTPClient) -> None:
    fetching, peer = waiting_at(silent, client)
    fetching.cancel()
    assert ends(peer)
    with pytest.raises(dhaga.Cancelled):
        fetching.result()
    assert repr(client) == "<HTTPClient open, 0 on their way>"


def test_a_timeout_closes_the_connection(silent: Silent, client: HTTPClient) -> None:
    fetching = dhaga.spawn(error_of, client.fetch, silent.url, timeout=0.2)
    assert ends(dhaga.offload(silent.accept))
    assert isinstance(fetching.result(), TimeoutError)


def test_tornados_own_time_outs_raise_its_errors(silent: Silent, client: HTTPClient) -> None:
    assert isinstance(error_of(client.fetch, silent.url, request_timeout=0.1), HTTPTimeoutError)


def test_close_ends_what_is_on_its_way(silent: Silent, client: HTTPClient) -> None:
    fetching = dhaga.spawn(error_of, client.fetch, silent.url)
    peer = dhaga.offload(silent.accept)
    client.close()
    assert isinstance(fetching.result(), HTTPStreamClosedError)
    assert ends(peer)
    with pytest.raises(RuntimeError, match="closed"):
        client.fetch(silent.url)


def test_nobody_listening_raises(silent: Silent, client: HTTPClient) -> None:
    silent.sock.close()
    with pytest.raises(ConnectionRefusedError):
        client.fetch(silent.url)


def test_max_clients_must_be_positive() -> None:
    with pytest.raises(ValueError):
        HTTPClient(max_clients=0)
