"""HTTPClient where it is crowded or cramped: thousands, threads, other loops, forks, Ctrl-C, no file descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tornado.httpclient import HTTPError

import dhaga
from dhaga import socket
from dhaga.http import HTTPClient
from dhaga.testing import cancel_at_every_park, open_fds, settle
from tests.http.served import Server, Silent, ends, error_of
from tests.kit.parking import parked, victim
from tests.kit.scripts import Program, prints
from tests.kit.socket_cases import eventually

THOUSANDS = 5_000

# Answers when all are there; in a process of its own, as either end needs a file descriptor for each.
GATHERING = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
waiting = []
class Page(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        waiting.append(self.transport)
        if len(waiting) == int(sys.argv[1]):
            for transport in waiting:
                transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\nConnection: close\\r\\n\\r\\nall")
                transport.close()
async def main():
    server = await asyncio.get_running_loop().create_server(Page, "127.0.0.1", 0, backlog=8192)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextlib.contextmanager
def gathering(count: int) -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-c", GATHERING, str(count)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.kill()


@contextlib.contextmanager
def limit_of_files(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_thousands_are_fetched_at_once(kind: str) -> None:
    """Their small sibling is in test_client.py."""
    with gathering(THOUSANDS) as url, limit_of_files(2 * THOUSANDS), HTTPClient() as client:
        patience = {"request_timeout": 100, "connect_timeout": 100}
        fetches = [dhaga.spawn(client.fetch, url, **patience) for _ in range(THOUSANDS)]
        assert [fetch.result().body for fetch in fetches] == [b"all"] * THOUSANDS


@pytest.mark.slow
def test_thousands_that_are_cancelled_here_and_there_leave_nothing() -> None:
    settle()
    before = open_fds()
    with gathering(THOUSANDS) as url, limit_of_files(2 * THOUSANDS), HTTPClient(max_clients=1_500) as client:
        fetches = [dhaga.spawn(client.fetch, url) for _ in range(2_000)]
        for turn in range(50):
            for fetch in fetches[turn::50]:
                fetch.cancel()
            dhaga.sleep(0.001)
        for fetch in fetches:
            fetch.join()
        assert not client.fetches and client.permits._value == 1_500
    assert open_fds() <= before


def test_os_threads_and_dhagas_share_a_client(kind: str, server: Server, client: HTTPClient) -> None:
    bodies: list[bytes] = []

    def fetch() -> None:
        bodies.append(client.fetch(server.url("/all/40")).body)

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    with dhaga.Scheduler("other") as other:
        dhagas = [spawn(fetch) for spawn in (dhaga.spawn, other.spawn) for _ in range(18)]
        for thread in threads:
            thread.start()
        everyone: list[Any] = [*dhagas, *threads]
        for each in everyone:
            each.join()
    assert bodies == [b"all"] * 40


def test_close_ends_what_other_threads_fetch(kind: str, silent: Silent) -> None:
    errors: list[BaseException] = []
    with HTTPClient(max_clients=250) as client:
        threads = [threading.Thread(target=lambda: errors.append(error_of(client.fetch, silent.url))) for _ in range(3)]
        for thread in threads:
            thread.start()
        peers = [dhaga.offload(silent.accept) for _ in threads]
        client.close()
        for thread in threads:
            dhaga.offload(thread.join)
    assert ["HTTPClient was closed" in str(error) for error in errors] == [True] * 3
    assert all(map(ends, peers))


def test_another_thread_may_close_a_client_twice(kind: str, silent: Silent) -> None:
    client = HTTPClient()
    fetching = parked(error_of, client.fetch, silent.url)
    peer = dhaga.offload(silent.accept)
    for _ in range(2):
        closing = threading.Thread(target=client.close)
        closing.start()
        closing.join()  # blocks this thread: no call has arrived before both are made
    assert "HTTPClient was closed" in str(fetching.result())
    assert ends(peer)


# ---- loops


def loops() -> list[Any]:
    def with_uvloop(main: Any) -> Any:
        return pytest.importorskip("uvloop").run(main)

    return [asyncio.run, with_uvloop]


@pytest.mark.parametrize("run", loops())
def test_it_works_on_a_loop_that_others_run(kind: str, server: Server, client: HTTPClient, run: Any) -> None:
    async def main() -> list[bytes]:
        fetches = [dhaga.aio.run_in_dhaga(client.fetch, server.url("/all/20")) for _ in range(20)]
        return [response.body for response in await asyncio.gather(*fetches)]

    assert run(main()) == [b"all"] * 20


@pytest.mark.parametrize("run", loops())
def test_a_loop_that_ends_ends_what_is_fetched_on_it(kind: str, silent: Silent, client: HTTPClient, run: Any) -> None:
    fetches: list[dhaga.Dhaga] = []

    async def main() -> None:
        fetches.append(dhaga.spawn(client.fetch, silent.url))
        await asyncio.get_running_loop().run_in_executor(None, silent.accept)

    run(main())
    with pytest.raises(dhaga.Cancelled):
        fetches[0].result()
    assert ends(silent.held[0])


def test_a_scheduler_that_stops_ends_what_is_fetched_on_it(kind: str, silent: Silent, client: HTTPClient) -> None:
    with dhaga.Scheduler("other") as other:
        fetch = other.spawn(client.fetch, silent.url)
        peer = dhaga.offload(silent.accept)
    with pytest.raises(dhaga.Cancelled):
        fetch.result()
    assert ends(peer)


# ---- cancels


class Answers:
    """A server on dhagas of the same scheduler; it ends with its listener."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = answers
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.running = dhaga.spawn(self.run)

    def run(self) -> None:
        with self.listener, contextlib.suppress(TimeoutError):
            self.listener.settimeout(1)
            while True:
                peer, _ = self.listener.accept()
                dhaga.spawn(self.serve, peer)

    def serve(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            peer.settimeout(1)
            path = peer.recv(65536).split()[1]
            for piece in self.answers if path == b"/" else (OK,):
                peer.sendall(piece)
                dhaga.sleep(0.001)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MOVED = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("answers", [(OK[:20], OK[20:-1], OK[-1:]), (MOVED,)], ids=["pieces", "redirect"])
@pytest.mark.parametrize("options", [{}, {"streaming_callback": lambda _: dhaga.sleep(0.01)}], ids=["", "streaming"])
def test_a_fetch_cut_short_at_any_park_leaves_nothing(answers: Any, options: Any) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        settle()
        before = open_fds()
        client = HTTPClient(max_clients=1)
        server = Answers(*answers)

        def fetch() -> None:
            client.fetch(server.url, **options)

        def check() -> None:
            assert not client.fetches and client.permits._value == 1
            assert open_fds() <= before
            client.close()

        return victim(fetch), check

    assert cancel_at_every_park(scenario) >= 1


# ---- processes


def test_without_file_descriptors_a_fetch_raises_and_the_next_one_works(
    kind: str, server: Server, silent: Silent, client: HTTPClient
) -> None:
    assert client.fetch(server.url(host="localhost"), allow_ipv6=False).code == 200
    if kind != "curl":  # which keeps its connection; the other's is closed by the server in its own time
        eventually(lambda: not server.http._connections)
    with no_file_descriptors() as use_up:
        error = None
        while error is None or "timeout" in str(error).lower().replace("timed out", "timeout"):
            use_up()  # again, if another thread has closed one since
            error = error_of(client.fetch, silent.url, request_timeout=0.5)
    assert isinstance(error, HTTPError if kind == "curl" else OSError)
    assert client.fetch(server.url()).code == 200


@contextlib.contextmanager
def no_file_descriptors() -> Iterator[Callable[[], None]]:
    """Until the end of the block the function that is its value uses up what is left of them."""
    with limit_of_files(max(open_fds()) + 2), contextlib.ExitStack() as stack:

        def use_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stack.callback(os.close, os.dup(0))

        yield use_up


FETCHES = """
    import os, socket, sys, threading, dhaga
    from dhaga.http import HTTPClient
    from tornado.httpclient import AsyncHTTPClient
    AsyncHTTPClient.configure({kind!r})
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{{listener.getsockname()[1]}}/"
    def serve(count):
        for _ in range(count):
            peer, _ = listener.accept()
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok")
            peer.close()
    client = HTTPClient(max_clients=2)
"""
KINDS = [None, "tornado.curl_httpclient.CurlAsyncHTTPClient"]


@pytest.mark.once
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_goes_on_fetching(kind: str | None) -> None:
    """Even where all the permits are with dhagas of the parent."""
    code = """
    threading.Thread(target=serve, args=(3,), daemon=True).start()
    print(client.fetch(url).body, flush=True)
    silent = socket.create_server(("127.0.0.1", 0))
    stuck = [dhaga.spawn(client.fetch, f"http://127.0.0.1:{silent.getsockname()[1]}") for _ in range(2)]
    dhaga.sleep(0.01)
    pid = os.fork()
    if not pid:
        print("child", client.fetch(url).body, flush=True)
        client.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    stuck.pop().cancel()
    print("parent", client.fetch(url).body, client)
    stuck.pop().cancel()
    """
    lines = prints(FETCHES.format(kind=kind) + code, "-W", "ignore::DeprecationWarning")
    assert lines == ["b'ok'", "child b'ok'", "parent b'ok' <HTTPClient open, 1 in flight>"]


@pytest.mark.once
@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_ends_a_fetch_and_closes_its_connection(kind: str | None) -> None:
    code = """
    def watch():
        peer, _ = listener.accept()
        peer.recv(65536)
        print("waiting", flush=True)
        rest.append(peer.recv(65536))
    rest = []
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        client.fetch(url)
    except KeyboardInterrupt:
        print(client)
    watcher.join()
    print("closed", rest)
    """
    outcome = Program(FETCHES.format(kind=kind) + code).interrupt_at("waiting").outcome()
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.lines == ["<HTTPClient open, 0 in flight>", "closed [b'']"]
