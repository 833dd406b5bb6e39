"""HTTP: a WSGI server at each place; Sessions and bare sockets, which ask, stream, read slowly and leave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import dhaga
from dhaga import socket
from dhaga.http import Session
from dhaga.http.wsgi import Server
from tests.soak.attempts import Attempt, Scenario
from tests.soak.echo import CHUNK, NO_LINGER, SLOWNESS, Cut
from tests.soak.places import Place
from tests.soak.run import Run

BODY = 200_000
"""Bytes of a request's body, at most."""

REQUESTS = 8
"""Over one bare socket, at most."""

IDLE = 5.0
"""Seconds before a request in which its connection may have been cut: it waited in the pool of a Session."""

PATHS = ("/whole", "/pieces", "/later", "/offloaded")


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    """Answer with the digest of the request's body, and with the body."""
    path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
    if path == "/later":
        dhaga.sleep(0.003)
    digest = (dhaga.offload(hashlib.sha256, body) if path == "/offloaded" else hashlib.sha256(body)).digest()
    length = [] if path == "/pieces" else [("Content-Length", str(len(digest) + len(body)))]
    start_response("200 OK", [("Content-Type", "application/octet-stream"), *length])
    return pieces(digest, body) if path == "/pieces" else [digest + body]


def pieces(digest: bytes, body: bytes) -> Iterator[bytes]:
    """Give the answer bit by bit."""
    yield digest
    for begin in range(0, len(body), CHUNK):
        dhaga.sleep(0)
        yield body[begin : begin + CHUNK]


def check(body: bytes, answer: bytes) -> None:
    """Compare an answer with what was asked."""
    if answer != hashlib.sha256(body).digest() + body:
        raise AssertionError(f"a body of {len(body)} bytes got a wrong answer of {len(answer)}")


class Web(Scenario):
    """A WSGI server at each place, and a Session there that its clients share."""

    name = "web"
    width = 5

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.sessions: dict[str, Session] = {}

    def open(self, place: Place) -> None:
        server = Server(app, name=f"{self.name} at {place.name}")
        self.servers.append(place.call(server.start))
        session = self.sessions[place.name] = Session()
        session.trust_env = False

    def attempt(self, attempt: Attempt) -> None:
        server = attempt.choose.choice(self.servers)
        if attempt.choose.random() < 0.5:
            self.ask_by_session(attempt, server.address)
        else:
            attempt.connect(server, lambda sock: BareClient(attempt, sock).talk())

    def ask_by_session(self, attempt: Attempt, address: Any) -> None:
        """Ask over any connection that the Session has."""
        body = attempt.choose.randbytes(attempt.choose.randint(0, BODY))
        url = f"http://{address[0]}:{address[1]}{attempt.choose.choice(PATHS)}"
        try:
            answer = self.sessions[attempt.place.name].post(url, data=body).content
        except OSError as error:  # all that requests raises is such
            run, began = self.run, attempt.began
            if not (run.shortage.explains(error, began) or run.cuts.take_one(address, began - IDLE)):
                raise
            attempt.trouble("errors explained")
        else:
            check(body, answer)
            self.done()

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        super().close()


class BareClient:
    """One client over a connection of its own, who writes requests himself."""

    def __init__(self, attempt: Attempt, sock: Any) -> None:
        self.attempt = attempt
        self.choose = attempt.choose
        self.sock = sock

    def talk(self) -> None:
        """Make requests; then end well, or in one of the ways that clients have."""
        with self.sock.makefile("rb") as lines:
            for _ in range(self.choose.randint(0, REQUESTS)):
                self.ask(lines, b"keep-alive")
            self.choose.choice((self.half_close, self.read_slowly, self.reset))(lines)

    def request(self, body: bytes, connection: bytes) -> bytes:
        head = b"POST /whole HTTP/1.1\r\nHost: soak\r\nConnection: %b\r\nContent-Length: %d\r\n\r\n"
        return head % (connection, len(body)) + body

    def body(self, size: int) -> bytes:
        return self.choose.randbytes(self.choose.randint(0, size))

    def ask(self, lines: Any, connection: bytes, pause: float = 0.0) -> None:
        """Make one request, and read its answer."""
        body = self.body(BODY if pause else CHUNK)
        with dhaga.Scope(name="request") as scope:
            scope.spawn(self.sock.sendall, self.request(body, connection))
            check(body, self.answer(lines, pause))
        self.attempt.scenario.done()

    def answer(self, lines: Any, pause: float) -> bytes:
        length = 0
        if (status := self.line(lines)).split()[1] != b"200":
            raise AssertionError(f"the answer is {status!r}")
        while (line := self.line(lines)) != b"\r\n":
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return b"".join(self.read(lines, length, pause))

    def line(self, lines: Any) -> bytes:
        line: bytes = lines.readline()
        if not line.endswith(b"\n"):
            raise Cut(f"a head is cut short at {line!r}")
        return line

    def read(self, lines: Any, left: int, pause: float) -> Iterator[bytes]:
        while left:
            data = lines.read(min(CHUNK, left))
            if not data:
                raise Cut(f"{left} bytes of the answer are missing")
            left -= len(data)
            yield data
            dhaga.sleep(pause)

    def half_close(self, lines: Any) -> None:
        """Say that no more will come, and wait for the answer all the same."""
        body = self.body(CHUNK)
        self.sock.sendall(self.request(body, b"close"))
        self.sock.shutdown(socket.SHUT_WR)
        check(body, self.answer(lines, 0.0))
        if lines.read(1):
            raise AssertionError("more came than one answer")
        self.attempt.scenario.done()
        self.attempt.trouble("half-closes")

    def read_slowly(self, lines: Any) -> None:
        """Take time over a large answer."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.ask(lines, b"close", self.choose.random() * SLOWNESS)
        self.attempt.trouble("slow readers")

    def reset(self, lines: Any) -> None:
        """Leave in the middle of a request, or of its answer."""
        request = self.request(self.body(CHUNK), b"keep-alive")
        self.sock.sendall(request[: self.choose.randint(1, len(request))])
        dhaga.sleep(self.choose.random() * 0.002)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.attempt.trouble("resets")
