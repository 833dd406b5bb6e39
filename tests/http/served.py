"""What HTTPClient is tested with: Tornado's server in an OS thread, and listeners that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import tornado
from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

import dhaga
from dhaga.http import HTTPClient
from tests.kit.parking import parked


class Hello(RequestHandler):
    def get(self) -> None:
        self.set_header("X-Seen", self.request.headers.get("X-Sent", ""))
        self.set_header("X-Authorization", self.request.headers.get("Authorization", "none"))
        self.set_header("X-Proxy-Authorization", self.request.headers.get("Proxy-Authorization", "none"))
        self.write("hello " * 200)

    def post(self) -> None:
        self.write(self.request.body)


class Moved(RequestHandler):
    def get(self) -> None:
        self.redirect(self.get_query_argument("to", "/"))

    def post(self) -> None:
        self.redirect("/", status=303)


class Broken(RequestHandler):
    def get(self) -> None:
        self.send_error(503)


class Port(RequestHandler):
    def get(self) -> None:
        assert self.request.connection is not None
        self.write(str(self.request.connection.stream.socket.getpeername()[1]))  # type: ignore[attr-defined]


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
    """Sends one piece, and another; ``/gated`` only when the client has asked for it: TCP keeps no two writes apart."""

    go_on: asyncio.Event
    flushed: asyncio.Event

    async def get(self, gated: str | None) -> None:
        with contextlib.suppress(StreamClosedError):  # the client has gone
            self.write(b"a" * 10)
            await self.flush()
            if gated:
                await Pieces.go_on.wait()
            self.write(b"b" * 10)
            await self.flush()
            Pieces.flushed.set()


ROUTES: list[Any] = [
    ("/", Hello),
    ("/moved", Moved),
    ("/broken", Broken),
    ("/port", Port),
    ("/pieces(/gated)?", Pieces),
    (r"/all/(\d+)", Gathering),
]
FOLDER = Path(tornado.__file__).parent / "test"


class Server:
    """Tornado's, in an OS thread of its own: a caller that blocks its thread is served, too."""

    def __init__(self) -> None:
        self.scheduler = dhaga.Scheduler("server").start()
        self.run(self.listen)

    def run(self, fn: Any) -> Any:
        return self.scheduler.spawn(lambda: dhaga.await_(fn())).result()

    async def listen(self) -> None:
        Gathering.here, Gathering.complete = 0, asyncio.Event()
        Pieces.go_on, Pieces.flushed = asyncio.Event(), asyncio.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(FOLDER / "test.crt", FOLDER / "test.key")
        self.http = HTTPServer(Application(ROUTES, compress_response=True))
        self.https = HTTPServer(Application(ROUTES), ssl_options=context)
        self.port, self.tls_port = map(listen, (self.http, self.https))

    async def close(self) -> None:
        for server in (self.http, self.https):
            server.stop()
            await server.close_all_connections()

    def send_next_piece(self) -> None:
        """Open the gate of ``/pieces/gated``. From: anywhere."""
        self.scheduler.loop.call_soon_threadsafe(Pieces.go_on.set)

    def wait_for_last_piece(self) -> None:
        """Park until the last piece of ``/pieces/gated`` was handed to the system."""
        self.run(Pieces.flushed.wait)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


def listen(server: HTTPServer) -> int:
    sock, port = bind_unused_port(address="127.0.0.1")
    sock.listen(6000)
    server.add_sockets([sock])
    return port


class Silent:
    """A listener that says what the test says, or nothing."""

    def __init__(self, backlog: int | None = None) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.address = self.sock.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}/"
        self.held: list[socket.socket] = []

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in (self.sock, *self.held):
            sock.close()

    def accept(self) -> socket.socket:
        peer = self.sock.accept()[0]
        peer.settimeout(30)
        self.held.append(peer)
        return peer

    def fill(self) -> Silent:
        """Have the next connection not be answered."""
        for _ in range(3):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(self.address)
            self.held.append(sock)
        return self


def error_of(fn: Any, *args: Any, **kwargs: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        fn(*args, **kwargs)
    return caught.value


def waiting_at(silent: Silent, client: HTTPClient, **options: Any) -> tuple[dhaga.Dhaga, socket.socket]:
    """Return a dhaga whose request has reached the other side, and the connection there."""
    fetching = parked(client.fetch, silent.url, **options)
    peer = dhaga.offload(silent.accept)
    assert dhaga.offload(peer.recv, 3) == b"GET"
    return fetching, peer


def ends(peer: socket.socket) -> bool:
    """Read until the other side has closed."""
    with contextlib.suppress(ConnectionResetError):
        while dhaga.offload(peer.recv, 65536):
            pass
    return True
