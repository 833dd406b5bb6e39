"""Echo over TCP: what comes back is what was sent, all of it and in order, whoever reads slowly or leaves halfway."""

from __future__ import annotations

import random
import struct
from typing import Any

import dhaga
from dhaga import socket
from dhaga.servers import TCPServer
from tests.soak.attempts import Attempt, Scenario
from tests.soak.places import Place

MESSAGES = 20
"""On a connection, at most."""

MESSAGE = 2_000
STREAM = 300_000
"""Bytes at most. A stream is more than the buffers of a slow reader take, so that its server has to wait."""

CHUNK = 16_384
SLOWNESS = 0.005
"""Seconds that a slow reader waits after each piece, at most."""

NO_LINGER = struct.pack("ii", 1, 0)
"""``SO_LINGER`` for a close that resets the connection."""


class Cut(ConnectionError):
    """The other end has closed before all had come."""


class Echo(Scenario):
    """An echo server at each place, and clients that do everything with it that clients do."""

    name = "echo"
    width = 6
    context: Any = None
    """Of a server with TLS."""

    def open(self, place: Place) -> None:
        server = TCPServer(self.answer, ssl_context=self.context, name=f"{self.name} at {place.name}")
        self.servers.append(place.call(server.start))

    def answer(self, sock: Any, peer: Any) -> None:
        """Send back what comes, until the client is done or has gone."""
        try:
            while data := sock.recv(CHUNK):
                sock.sendall(data)
        except OSError:  # it has reset the connection, as some do
            pass

    def attempt(self, attempt: Attempt) -> None:
        attempt.connect(attempt.choose.choice(self.servers), lambda sock: self.talk(attempt, sock))

    def talk(self, attempt: Attempt, sock: Any) -> None:
        """Be a client, over a connection that stands."""
        Client(attempt, sock).talk()


class Client:
    """One client, over one connection."""

    half_closes = True

    def __init__(self, attempt: Attempt, sock: Any) -> None:
        self.attempt = attempt
        self.choose: random.Random = attempt.choose
        self.sock = sock

    def talk(self) -> None:
        """Behave in one of the ways that clients have."""
        self.choose.choice((self.exchange, self.exchange, self.stream, self.read_slowly, self.reset))()

    def exchange(self) -> None:
        """Send messages and wait for the echo of each."""
        for _ in range(self.choose.randint(1, MESSAGES)):
            message = self.choose.randbytes(self.choose.randint(1, MESSAGE))
            self.sock.sendall(message)
            self.expect(message)
            self.attempt.scenario.done()
            if self.choose.random() < 0.1:
                dhaga.sleep(self.choose.random() * 0.005)

    def stream(self, pause: float = 0.0) -> None:
        """Send and receive at the same time, and say halfway that no more will come."""
        data = self.choose.randbytes(self.choose.randint(1, STREAM))
        with dhaga.Scope(name="stream") as scope:
            scope.spawn(self.send, data)
            self.expect(data, pause)
            if self.half_closes and self.sock.recv(1):
                raise AssertionError("more came back than was sent")
        self.attempt.scenario.done()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)
        if self.half_closes:
            self.sock.shutdown(socket.SHUT_WR)
            self.attempt.trouble("half-closes")

    def read_slowly(self) -> None:
        """Have the server wait until there is room for what it has to say."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CHUNK)
        self.stream(self.choose.random() * SLOWNESS)
        self.attempt.trouble("slow readers")

    def reset(self) -> None:
        """Leave without a word while the answer is on its way."""
        self.sock.sendall(self.choose.randbytes(self.choose.randint(1, CHUNK)))
        if self.choose.random() < 0.5:
            self.sock.recv(self.choose.randint(1, CHUNK))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.attempt.trouble("resets")

    def expect(self, data: bytes, pause: float = 0.0) -> None:
        """Receive as much as was sent, and compare. Raises: Cut, if the connection ends before that."""
        come = bytearray()
        while len(come) < len(data):
            more = self.sock.recv(min(CHUNK, len(data) - len(come)))
            if not more:
                raise Cut(f"it ended after {len(come)} of {len(data)} bytes")
            come += more
            if pause:
                dhaga.sleep(pause)
        if come != data:
            raise AssertionError(f"of {len(data)} bytes others came back than were sent, from {differ(come, data)} on")


def differ(one: bytes | bytearray, other: bytes) -> int:
    """Return where two texts of the same length begin to differ."""
    return next(n for n, (this, that) in enumerate(zip(one, other, strict=True)) if this != that)
