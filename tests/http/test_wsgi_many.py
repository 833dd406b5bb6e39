"""Many connections at once: long polls that wait, connections that idle, clients that leave at any moment."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga import socket
from dhaga._sync.event import Event
from dhaga.http.limits import Limits
from dhaga.http.wsgi import Server
from tests.http.wire import TEXT, Answer, chunked, get, post, serving

STATUS = Path("/proc/self/status")


class Polls:
    """An app whose requests all wait for one event."""

    def __init__(self) -> None:
        self.event = Event()
        self.waiting = 0

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        self.waiting += 1
        self.event.wait()
        start_response("200 OK", list(TEXT))
        return [environ["PATH_INFO"].encode()]


def resident() -> int:
    """Return the memory of this process in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def polled(stack: ExitStack, server: Server, app: Polls, count: int) -> list[socket.socket]:
    """Open connections with a long poll each, and return once all of them wait."""
    clients = []
    for n in range(count):
        client = stack.enter_context(socket.create_connection(server.address))
        client.sendall(get(f"/{n}"))
        clients.append(client)
        if n % 50 == 49:
            dhaga.sleep(0)
    while app.waiting < count:
        dhaga.sleep(0.001)
    return clients


@pytest.mark.parametrize("count", [100, pytest.param(4000, marks=pytest.mark.slow)])
def test_long_polls_wait_at_once_and_each_gets_its_answer(count: int) -> None:
    app = Polls()
    with serving(app) as server, ExitStack() as stack:
        clients = polled(stack, server, app, count)
        assert len(server.connections) == count
        app.event.set()
        for n, client in enumerate(clients):
            assert Answer(client.recv(65536)).body == f"/{n}".encode()


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="this system does not tell the memory of a process")
def test_four_thousand_long_polls_cost_less_than_25_kb_each_with_their_clients() -> None:
    app = Polls()
    with serving(app) as server, ExitStack() as stack:
        polled(stack, server, app, 500)  # what is needed once
        before = resident()
        app.waiting = 0
        polled(stack, server, app, 4000)
        assert (resident() - before) / 4000 < 25_000
        app.event.set()


class Storm:
    """Clients that do what clients should not, each as the seed of its number says."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def request(self, choice: random.Random) -> bytes:
        path = choice.choice(["/", "/echo", "/part", "/large", "/pieces", "/take"])
        body = choice.randbytes(choice.choice([0, 1, 100, 3000]))
        kind = choice.randrange(5)
        if kind == 0:
            return get(path)
        if kind == 1:
            return post(body, path=path)
        if kind == 2:
            return chunked(*filter(None, [body]), path=path)
        if kind == 3:
            return get(path, "Expect: 100-continue", f"Content-Length: {len(body)}", method="POST") + body
        return body

    def client(self, number: int) -> None:
        choice = random.Random(number)
        for _ in range(5):
            try:
                with socket.create_connection(self.server.address) as sock:
                    self.talk(sock, choice)
            except OSError:
                pass

    def talk(self, sock: socket.socket, choice: random.Random) -> None:
        sock.settimeout(0.05)
        for _ in range(choice.randrange(1, 4)):
            data = self.request(choice)
            cut = choice.randrange(len(data) + 1)
            sock.sendall(data[:cut])
            if choice.random() < 0.2:
                break
            dhaga.sleep(0)
            sock.sendall(data[cut:])
            if choice.random() < 0.5:
                sock.recv(choice.choice([1, 100, 100_000]))
        if choice.random() < 0.3:  # the close resets the connection
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif choice.random() < 0.5:
            sock.shutdown(socket.SHUT_WR)


def patient(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    path, file = environ["PATH_INFO"], environ["wsgi.input"]
    data = file.read() if path in ("/echo", "/take") else file.read(3) if path == "/part" else b""
    if path == "/take":
        sock, rest = environ["dhaga.upgrade"]()
        sock.sendall(data + rest)
        return []
    start_response("200 OK", list(TEXT))
    return pieces() if path == "/pieces" else [data or b"x" * (300_000 if path == "/large" else 2)]


def pieces() -> Iterator[bytes]:
    for _ in range(20):
        dhaga.sleep(0)
        yield b"x" * 5000


@pytest.mark.parametrize("clients", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_clients_that_leave_at_any_moment_leave_nothing_behind(clients: int) -> None:
    limits = Limits(idle_timeout=0.1, header_timeout=0.1, body_timeout=0.1, write_timeout=0.1)
    with serving(patient, limits=limits) as server:
        storm = Storm(server)
        for each in [dhaga.spawn(storm.client, n) for n in range(clients)]:
            each.join()
        while server.connections:
            dhaga.sleep(0.001)
        assert not server.http_connections
        assert not server.scheduler.timers
