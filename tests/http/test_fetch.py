"""How a fetch of HTTPClient's is cut short: wherever it is just then, it ends, and so does its connection."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tornado.httpclient import HTTPError, HTTPResponse
from tornado.simple_httpclient import HTTPStreamClosedError, HTTPTimeoutError

import dhaga
from dhaga._iowait import dns
from dhaga.http import HTTPClient
from dhaga.http._client.fetch import DECOMPRESSED_BYTES
from dhaga.testing import open_fds, settle
from tests.http.served import Server, Silent, ends, error_of, waiting_at
from tests.kit.parking import parked
from tests.kit.socket_cases import eventually

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"


@dataclasses.dataclass
class Phase:
    """A fetch that has come so far and no further: what it fetches, and how to bring it there, once it has begun."""

    url: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    bring: Callable[[], socket.socket | None] = lambda: None


def silent(stack: ExitStack) -> Silent:
    return stack.enter_context(Silent())


def read_request(server: Silent) -> socket.socket:
    peer = dhaga.offload(server.accept)
    assert dhaga.offload(peer.recv, 65536)
    return peer


def look_up(stack: ExitStack) -> Phase:
    """Ask for a name that takes its time."""
    asked, known = threading.Event(), threading.Event()

    def look_up_slowly(*_: object) -> Any:
        asked.set()
        known.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))]

    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(dns, "standard_getaddrinfo", look_up_slowly)
    stack.callback(known.set)
    return Phase("http://slow.example/", bring=lambda: dhaga.offload(asked.wait) and None)


def connect(stack: ExitStack) -> Phase:
    return Phase(stack.enter_context(Silent(backlog=0)).fill().url, bring=settle)


def handshake(stack: ExitStack) -> Phase:
    server = silent(stack)
    return Phase(server.url.replace("http:", "https:"), bring=lambda: read_request(server))


def upload(stack: ExitStack) -> Phase:
    server = silent(stack)
    return Phase(server.url, {"method": "POST", "body": bytes(20_000_000)}, lambda: read_request(server))


def produce(stack: ExitStack) -> Phase:
    server = silent(stack)

    def producer(write: Any) -> None:
        while True:
            write(bytes(1_000_000))

    return Phase(server.url, {"method": "POST", "body_producer": producer}, lambda: read_request(server))


def produce_in_a_coroutine(stack: ExitStack) -> Phase:
    server = silent(stack)

    async def producer(write: Any) -> None:
        await write(b"some")
        await asyncio.Event().wait()

    return Phase(server.url, {"method": "POST", "body_producer": producer}, lambda: read_request(server))


def answer(stack: ExitStack) -> Phase:
    server = silent(stack)
    return Phase(server.url, bring=lambda: read_request(server))


def body(stack: ExitStack) -> Phase:
    server = silent(stack)

    def begin_to_answer() -> socket.socket:
        peer = read_request(server)
        peer.sendall(HEAD + b"a part")
        settle()
        return peer

    return Phase(server.url, bring=begin_to_answer)


def callback(stack: ExitStack) -> Phase:
    phase = body(stack)
    phase.options["streaming_callback"] = lambda _: dhaga.sleep(100)
    return phase


def redirected(stack: ExitStack) -> Phase:
    first, second = silent(stack), silent(stack)

    def redirect() -> socket.socket:
        read_request(first).sendall(MOVED % second.url.encode())
        return read_request(second)

    return Phase(first.url, bring=redirect)


PHASES = [look_up, connect, handshake, upload, answer, body, redirected, callback, produce, produce_in_a_coroutine]
FOR_CURL = PHASES[1:7]  # it looks names up by itself, and calls no functions that could park
CASES = [pytest.param(phase, "simple", id=phase.__name__) for phase in PHASES] + [
    pytest.param(phase, "curl", id=f"{phase.__name__}-curl", marks=pytest.mark.once) for phase in FOR_CURL
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def each_phase(test: Any) -> Any:
    return pytest.mark.parametrize("begin, kind", CASES, indirect=["kind"])(test)


def under_way(phase: Phase, client: HTTPClient, **options: Any) -> tuple[dhaga.Dhaga, socket.socket | None]:
    fetching = parked(client.fetch, phase.url, **phase.options, **options)
    return fetching, phase.bring()


@each_phase
def test_a_cancel_closes_the_connection(begin: Any, kind: str, stack: ExitStack, client: HTTPClient) -> None:
    phase = begin(stack)
    settle()
    before = open_fds()
    fetching, peer = under_way(phase, client)
    fetching.cancel()
    with pytest.raises(dhaga.Cancelled):
        fetching.result()
    assert repr(client) == "<HTTPClient open, 0 in flight>"
    if kind != "curl" and begin is not redirected:  # that of the first answer is the test's own
        eventually(lambda: open_fds() <= before | {peer and peer.fileno()})  # a thread that looks names up opens a file
    assert peer is None or ends(peer)


@each_phase
def test_close_ends_what_is_on_its_way(begin: Any, kind: str, stack: ExitStack) -> None:
    with HTTPClient(max_clients=250) as client:
        fetching, peer = under_way(begin(stack), client)
        client.close()
        with pytest.raises(HTTPStreamClosedError, match="HTTPClient was closed"):
            fetching.result()
        assert peer is None or ends(peer)
        with pytest.raises(RuntimeError, match="closed"):
            client.fetch("http://127.0.0.1:1/")


@each_phase
def test_a_timeout_closes_the_connection(begin: Any, kind: str, stack: ExitStack, client: HTTPClient) -> None:
    fetching, peer = under_way(begin(stack), client)
    fetching._expire()  # as its timeout would
    assert isinstance(error_of(fetching.result), TimeoutError)
    assert peer is None or ends(peer)


@each_phase
def test_a_request_timeout_raises_tornados_error(begin: Any, kind: str, stack: ExitStack, client: HTTPClient) -> None:
    phase = begin(stack)
    error = error_of(client.fetch, phase.url, **phase.options, request_timeout=0.02)
    assert isinstance(error, HTTPError if kind == "curl" else HTTPTimeoutError)
    assert error.code == 599


@pytest.mark.parametrize("begin, doing", [(look_up, "resolving"), (connect, "connecting"), (handshake, "handshake")])
def test_a_connect_timeout_says_what_took_so_long(begin: Any, doing: str, stack: ExitStack, client: HTTPClient) -> None:
    url, seconds, said = begin(stack).url, 0.02, ""
    while doing not in said and seconds < 20:  # on a busy machine what comes before takes so long
        error = error_of(client.fetch, url, connect_timeout=seconds)
        assert isinstance(error, HTTPTimeoutError)
        seconds, said = 4 * seconds, str(error)
    assert doing in said


def test_a_timeout_bounds_all_together(silent: Silent, client: HTTPClient) -> None:
    assert isinstance(error_of(client.fetch, silent.url, timeout=0.02), TimeoutError)
    with HTTPClient(max_clients=1) as single:
        fetching, _ = waiting_at(silent, single)
        assert isinstance(error_of(single.fetch, silent.url, timeout=0.02), TimeoutError)
        fetching.cancel()
        fetching.join()


def test_max_clients_bounds_them(kind: str, silent: Silent, server: Server) -> None:
    with HTTPClient(max_clients=1) as client:
        first, peer = waiting_at(silent, client)
        second = parked(client.fetch, server.url())
        assert "semaphore.acquire" in repr(second)
        first.cancel()
        assert second.result().code == 200
        assert ends(peer)
        with pytest.raises(dhaga.Cancelled):
            first.result()


def test_who_waits_for_a_turn_is_told_of_the_close(silent: Silent) -> None:
    with HTTPClient(max_clients=1) as client:
        fetches = [parked(error_of, client.fetch, silent.url) for _ in range(4)]
        client.close()
        assert [type(fetching.result()) for fetching in fetches] == [HTTPStreamClosedError] * 4


def test_a_cancel_that_comes_with_the_answer_loses_neither(kind: str, silent: Silent, client: HTTPClient) -> None:
    answers: list[HTTPResponse] = []

    def fetch() -> None:
        answers.append(client.fetch(silent.url))
        dhaga.sleep(100)

    fetching = parked(fetch)
    peer = dhaga.offload(silent.accept)
    dhaga.offload(peer.recv, 1000)
    peer.sendall(HEAD.replace(b"1000", b"2") + b"ok")
    flight: Any = next(iter(client.fetches))
    wake, flight.done_callback = flight.done_callback, lambda _: fetching.cancel() and wake(flight)
    with pytest.raises(dhaga.Cancelled):
        fetching.result()
    assert [answer.body for answer in answers] == [b"ok"]


def test_tornados_task_cancelled_by_others_ends_the_fetch(silent: Silent, client: HTTPClient) -> None:
    fetching, peer = waiting_at(silent, client)
    next(iter(client.fetches)).dial.task.cancel()
    with pytest.raises(dhaga.Cancelled):
        fetching.result()
    assert ends(peer)


def test_a_connection_that_is_reset_raises(kind: str, silent: Silent, client: HTTPClient) -> None:
    fetching, peer = waiting_at(silent, client)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    assert isinstance(error_of(fetching.result), HTTPError | ConnectionResetError)


@pytest.mark.parametrize("framing", [b"Content-Length: 1000", b"Transfer-Encoding: chunked", b"Connection: close"])
def test_a_reset_within_a_body_raises_at_once(framing: bytes, kind: str, silent: Silent, client: HTTPClient) -> None:
    fetching = parked(client.fetch, silent.url, request_timeout=0)
    peer = read_request(silent)
    peer.sendall(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n4\r\npart\r\n")
    settle()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.close()
    assert isinstance(error_of(fetching.result), HTTPError | ConnectionResetError)


def test_a_transfer_of_curl_that_is_dropped_leaves_its_handle_for_the_next(silent: Silent, server: Server) -> None:
    """It is ended by CurlAsyncHTTPClient._finish, a private function of Tornado's."""
    pytest.importorskip("pycurl")
    from tornado.curl_httpclient import CurlAsyncHTTPClient
    from tornado.httpclient import AsyncHTTPClient

    AsyncHTTPClient.configure(CurlAsyncHTTPClient)
    try:
        with HTTPClient(max_clients=2) as client:
            for _ in range(6):
                fetching, _ = waiting_at(silent, client)
                fetching.cancel()
                with pytest.raises(dhaga.Cancelled):
                    fetching.result()
            assert client.fetch(server.url()).code == 200
    finally:
        AsyncHTTPClient.configure(None)


def test_a_body_that_expands_a_thousandfold_lets_others_run(silent: Silent, client: HTTPClient) -> None:
    size = 32 << 20
    packed = gzip.compress(bytes(size))
    turns = after_head = 0

    def on_header(line: str) -> None:
        nonlocal after_head
        if not line.strip():
            after_head = turns

    fetching = dhaga.spawn(client.fetch, silent.url, header_callback=on_header)
    peer = read_request(silent)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
    while fetching.is_alive():
        turns += 1
        dhaga.sleep(0)
    assert fetching.result().body == bytes(size) and turns - after_head > size // DECOMPRESSED_BYTES // 2


def test_a_body_that_expands_beyond_the_limit_is_an_error(silent: Silent) -> None:
    packed = gzip.compress(bytes(3 << 20))
    with HTTPClient(max_body_size=1 << 20) as client:
        fetching = dhaga.spawn(client.fetch, silent.url)
        peer = read_request(silent)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed)
        with pytest.raises(HTTPStreamClosedError):
            fetching.result()
