"""HTTPClient on Tornado's simple client and on curl: what comes of a fetch. How one is cut short: test_client_ends."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ssl
import threading
import weakref
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.httputil import HTTPHeaders
from tornado.netutil import Resolver

import dhaga
from dhaga._workers.offload import end_idle_threads
from dhaga.http import HTTPClient
from dhaga.testing import open_fds, settle
from tests.http.served import FOLDER, Server, Silent, error_of
from tests.kit.socket_cases import eventually


def test_fetch_in_main_code_and_in_a_dhaga_returns_the_response(kind: str, server: Server, client: HTTPClient) -> None:
    for response in (client.fetch(server.url()), dhaga.spawn(client.fetch, server.url()).result()):
        assert (response.code, response.body) == (200, b"hello " * 200)


def test_a_dhaga_that_has_fetched_ends_without_garbage(kind: str, server: Server, client: HTTPClient) -> None:
    def fetch_and_drop() -> Any:
        return weakref.ref(client.fetch(server.url()))

    gc.disable()
    try:
        response = dhaga.spawn(fetch_and_drop).result()
        settle()  # the fetch's own callback has held it
        assert response() is None
    finally:
        gc.enable()


def test_fetch_in_a_plain_thread_leaves_no_loop_and_no_thread(kind: str, server: Server, client: HTTPClient) -> None:
    bodies: list[bytes] = []
    for _ in range(2):
        threads = [threading.Thread(target=lambda: bodies.append(client.fetch(server.url()).body)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert bodies == [b"hello " * 200] * 8  # what is left, nothing_left sees
    client.fetch(server.url())
    assert len(client.clients) <= 5  # those of the first threads are forgotten


def test_fetch_in_a_coroutine_is_refused_at_once(client: HTTPClient) -> None:
    async def main() -> None:
        client.fetch("http://127.0.0.1:1/")

    with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
        asyncio.run(main())


def test_options_are_those_of_tornado(kind: str, server: Server, client: HTTPClient) -> None:
    assert client.fetch(server.url(), headers={"X-Sent": "yes"}).headers["X-Seen"] == "yes"
    assert client.fetch(server.url(), method="POST", body=b"data").body == b"data"
    assert client.fetch(HTTPRequest(server.url(), method="POST", body=b"more")).body == b"more"


def test_a_request_may_be_fetched_by_many_at_once_and_is_not_touched(
    kind: str, server: Server, client: HTTPClient
) -> None:
    request = HTTPRequest(server.url(), headers={"X-Sent": "yes"})
    before = {name: value for name, value in vars(request).items() if name != "_headers"}
    responses = [each.result() for each in [dhaga.spawn(client.fetch, request) for _ in range(5)]]
    assert all(response.request is request for response in responses)
    assert {name: value for name, value in vars(request).items() if name != "_headers"} == before
    assert HTTPHeaders(request.headers) == HTTPHeaders({"X-Sent": "yes"})


@pytest.mark.parametrize(
    "args, options",
    [((None,), {}), ((HTTPRequest("http://127.0.0.1:1/"),), {"method": "PUT"}), (("http://x/",), {"no_such": 1})],
)
def test_what_is_no_request_is_refused_at_once(client: HTTPClient, args: Any, options: Any) -> None:
    with pytest.raises(TypeError):
        client.fetch(*args, **options)


@pytest.mark.parametrize("url", ["", "127.0.0.1", "gopher://127.0.0.1/", "http://"])
def test_what_is_no_url_is_refused(client: HTTPClient, url: str) -> None:
    assert isinstance(error_of(client.fetch, url), (ValueError, OSError))


@pytest.mark.logs
def test_certificates_are_verified_unless_asked_not_to(kind: str, server: Server, client: HTTPClient) -> None:
    url = f"https://127.0.0.1:{server.tls_port}/"
    with pytest.raises(ssl.SSLError if kind == "simple" else HTTPClientError):
        client.fetch(url)
    assert client.fetch(url, validate_cert=False).code == 200


def test_names_are_resolved_as_the_settings_say(server: Server) -> None:
    with HTTPClient(hostname_mapping={"nowhere.example": "127.0.0.1", "foo.example.com": "127.0.0.1"}) as client:
        assert client.fetch(f"http://nowhere.example:{server.port}/").code == 200
        url = f"https://foo.example.com:{server.tls_port}/"
        assert client.fetch(url, ca_certs=str(FOLDER / "test.crt")).code == 200


def test_resolvers_that_are_configured_are_used(server: Server) -> None:
    class Nowhere(Resolver):
        async def resolve(self, *_: Any) -> Any:
            raise ZeroDivisionError

    def fetches_by(resolver: Any) -> bool:
        with HTTPClient(**({} if resolver is None else {"resolver": resolver})) as client:
            return isinstance(error_of(client.fetch, server.url()), ZeroDivisionError)

    assert fetches_by(Nowhere())
    for configured, settings in (
        (Resolver, {"impl": Nowhere}),
        (AsyncHTTPClient, {"impl": None, "resolver": Nowhere()}),
    ):
        configured.configure(**settings)
        try:
            assert fetches_by(None)
        finally:
            configured.configure(None)


def test_names_are_looked_up(kind: str, server: Server, client: HTTPClient) -> None:
    assert client.fetch(server.url(host="localhost"), allow_ipv6=False).code == 200


def test_redirects_are_followed_or_not(kind: str, server: Server, client: HTTPClient) -> None:
    response = client.fetch(server.url("/moved"))
    assert (response.code, response.effective_url) == (200, server.url("/"))
    assert client.fetch(server.url("/moved"), raise_error=False, follow_redirects=False).code == 302


def test_a_password_goes_along_with_a_redirect_but_not_to_another_host(
    kind: str, server: Server, client: HTTPClient
) -> None:
    password = {"auth_username": "me", "auth_password": "secret", "allow_ipv6": False}
    assert client.fetch(server.url("/moved"), **password).headers["X-Authorization"].startswith("Basic ")
    elsewhere = server.url(f"/moved?to={server.url(host='localhost')}")
    assert client.fetch(elsewhere, **password).headers["X-Authorization"] == "none"


def test_a_login_at_a_proxy_does_not_go_along_with_a_redirect(server: Server, client: HTTPClient) -> None:
    headers = {"Proxy-Authorization": "Basic x", "X-Sent": "yes"}
    for url, login in ((server.url(), "Basic x"), (server.url("/moved"), "none")):
        seen = client.fetch(url, headers=headers).headers
        assert (seen["X-Proxy-Authorization"], seen["X-Seen"]) == (login, "yes")
    assert headers["Proxy-Authorization"] == "Basic x"


def test_what_comes_compressed_is_expanded_unless_asked_for(kind: str, server: Server, client: HTTPClient) -> None:
    response = client.fetch(server.url())
    assert response.body == b"hello " * 200
    assert kind == "curl" or response.headers["X-Consumed-Content-Encoding"] == "gzip"
    raw = client.fetch(server.url(), decompress_response=False, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(raw.body) == b"hello " * 200


def test_raise_error_decides_about_error_codes(kind: str, server: Server, client: HTTPClient) -> None:
    with pytest.raises(HTTPClientError) as caught:
        client.fetch(server.url("/broken"))
    assert caught.value.code == client.fetch(server.url("/broken"), raise_error=False).code == 503


def test_nobody_listening_raises_even_without_raise_error(kind: str, silent: Silent, client: HTTPClient) -> None:
    silent.sock.close()
    for raise_error in (True, False):
        with pytest.raises(ConnectionRefusedError if kind == "simple" else HTTPClientError) as caught:
            client.fetch(silent.url, raise_error)
        assert getattr(caught.value, "code", 599) == 599


def test_far_more_than_ten_are_on_their_way_at_once(kind: str, server: Server, client: HTTPClient) -> None:
    fetches = [dhaga.spawn(client.fetch, server.url("/all/200")) for _ in range(200)]
    assert [fetch.result().body for fetch in fetches] == [b"all"] * 200


def test_max_clients_must_be_positive() -> None:
    with pytest.raises(ValueError):
        HTTPClient(max_clients=0)


def test_only_curl_goes_through_a_proxy(kind: str, silent: Silent, client: HTTPClient) -> None:
    def serve() -> bytes:
        peer = silent.accept()
        asked = peer.recv(65536)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")
        return asked.split()[1]

    proxy = {"proxy_host": "127.0.0.1", "proxy_port": silent.address[1]}
    if kind == "simple":
        assert isinstance(error_of(client.fetch, silent.url, **proxy), NotImplementedError)
    else:
        serving = dhaga.spawn(dhaga.offload, serve)
        assert client.fetch("http://nowhere.example/page", **proxy).body == b"proxy"
        assert serving.result() == b"http://nowhere.example/page"


def test_a_call_that_is_offloaded_may_fetch(kind: str, server: Server, client: HTTPClient) -> None:
    assert dhaga.offload(client.fetch, server.url()).code == 200
    end_idle_threads()  # the thread has a scheduler, and keeps it to its end


def test_curl_keeps_connections_until_the_client_is_closed(server: Server) -> None:
    pytest.importorskip("pycurl")
    AsyncHTTPClient.configure("tornado.curl_httpclient.CurlAsyncHTTPClient")
    try:
        settle()
        before = open_fds()
        with HTTPClient(max_clients=5) as client:
            ports = {client.fetch(server.url("/port")).body for _ in range(3)}
            assert len(ports) == 1
        eventually(lambda: open_fds() <= before)
    finally:
        AsyncHTTPClient.configure(None)


# ---- functions of the request's


def test_callbacks_get_headers_and_pieces(kind: str, server: Server, client: HTTPClient) -> None:
    lines: list[str] = []
    pieces: list[bytes] = []

    def take(piece: bytes) -> None:
        pieces.append(piece)
        server.send_next_piece()

    options = {"header_callback": lines.append, "streaming_callback": take}
    response = client.fetch(server.url("/pieces/gated"), decompress_response=False, **options)
    assert (response.body, b"".join(pieces)) == (b"", b"a" * 10 + b"b" * 10)
    assert lines[0].startswith("HTTP/1.1 200") and len(pieces) >= 2
    assert response.request.streaming_callback == take


def test_a_streaming_callback_may_park_and_the_next_piece_waits(server: Server, client: HTTPClient) -> None:
    pieces: list[bytes] = []
    taking: list[bytes] = []

    def take(piece: bytes) -> None:
        assert not taking
        taking.append(piece)
        pieces.append(piece)
        if b"a" in piece:
            server.send_next_piece()
            server.wait_for_last_piece()  # parks
            dhaga.sleep(0.01)  # the piece is here by now, as a rule, and has to wait
        taking.clear()

    client.fetch(server.url("/pieces/gated"), streaming_callback=take)
    assert b"".join(pieces) == b"a" * 10 + b"b" * 10 and b"b" not in pieces[0]


def test_a_streaming_callback_may_be_a_coroutine_function(server: Server, client: HTTPClient) -> None:
    pieces: list[bytes] = []

    async def take(piece: bytes) -> None:
        await asyncio.sleep(0)
        pieces.append(piece)

    for callback in (take, lambda piece: take(piece)):
        client.fetch(server.url("/pieces"), streaming_callback=callback)
    assert b"".join(pieces) == (b"a" * 10 + b"b" * 10) * 2


@pytest.mark.parametrize("name", ["streaming_callback", "header_callback"])
@pytest.mark.parametrize("error", [ZeroDivisionError, StopIteration])
def test_what_a_callback_raises_fetch_does(
    kind: str, server: Server, client: HTTPClient, name: str, error: type[Exception]
) -> None:
    def fail(piece: object) -> None:
        raise error

    raised = error_of(client.fetch, server.url("/pieces/gated"), **{name: fail})
    server.send_next_piece()
    assert isinstance(raised, (error, RuntimeError))
    assert client.fetch(server.url()).code == 200


def test_where_a_callback_cannot_park_fetch_says_so(kind: str, server: Server, client: HTTPClient) -> None:
    name = "header_callback" if kind == "simple" else "streaming_callback"
    assert isinstance(
        error_of(client.fetch, server.url("/pieces/gated"), **{name: lambda _: dhaga.sleep(0.01)}), dhaga.ParkError
    )
    server.send_next_piece()


def test_a_body_may_be_written_by_a_function_that_parks(server: Server, client: HTTPClient) -> None:
    def produce(write: Any) -> None:
        for piece in (b"one ", b"two ", bytes(3_000_000)):
            write(piece)
            dhaga.sleep(0)

    response = client.fetch(server.url(), method="POST", body_producer=produce)
    assert response.body == b"one two " + bytes(3_000_000)


def test_a_body_may_be_written_by_a_coroutine_function(server: Server, client: HTTPClient) -> None:
    async def produce(write: Any) -> None:
        await write(b"one ")
        await write(b"two")

    for producer in (produce, lambda write: produce(write)):
        assert client.fetch(server.url(), method="POST", body_producer=producer).body == b"one two"


def test_a_body_is_not_written_again_after_a_redirect_to_a_get(server: Server, client: HTTPClient) -> None:
    written: list[bytes] = []

    def produce(write: Any) -> None:
        written.append(b"one")
        write(b"one")

    assert client.fetch(server.url("/moved"), method="POST", body_producer=produce).body.startswith(b"hello")
    assert written == [b"one"]


def test_an_error_while_a_body_is_written_ends_the_fetch(server: Server, client: HTTPClient) -> None:
    def produce(write: Any) -> None:
        write(b"one")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        client.fetch(server.url(), method="POST", body_producer=produce)
    assert repr(client) == "<HTTPClient open, 0 in flight>"


@pytest.mark.parametrize("url", ["http://localhost/a b", "http://localhost/a\r\nX: y", "http://localhost/\x7f"])
def test_a_url_that_is_not_quoted_is_refused(client: HTTPClient, url: str) -> None:
    for request in (url, HTTPRequest(url)):
        with pytest.raises(ValueError, match="quoted"):
            client.fetch(request)
