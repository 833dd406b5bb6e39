"""A client that stays: when its connection ends, it comes back and goes on after the last id it has seen."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .client_protocols import PROTOCOLS, Heard
from .runtime import socket, threading, time

READ_SIZE: Final = 16 << 10
CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 60.0
"""Seconds after which a silent connection is taken for dead: four heartbeats of the server. If the server has vanished
without a word, nothing else tells.
"""
PAUSES: Final = (0.05, 1.0)
"""The first and the longest pause before it comes back, in seconds; each is drawn at random up to there."""


@dataclass(frozen=True)
class Endpoint:
    """An endpoint, and the token for it."""

    kind: str
    host: str
    port: int
    token: str = ""


class Listener:
    """Calls `take(message)` for each message of a topic, from `places` in turn, until `stop`.

    `begun(id)` is called once, with the id after which it listens, unless that is given as `last`.
    """

    def __init__(
        self,
        places: list[Endpoint],
        topic: str,
        take: Callable[[Heard], object],
        *,
        last: str | None = None,
        begun: Callable[[str], object] | None = None,
    ) -> None:
        self.places = places
        self.topic = topic
        self.take = take
        self.last = last
        self.begun = begun
        self.ready = False  # the present connection has begun
        self.connections = 0
        self.gaps = 0
        self.stopping = False
        self.error: Exception | None = None
        self.sock: Any = None

    def __repr__(self) -> str:
        state = "listening" if self.ready else "not connected"
        return f"<Listener to {self.topic} after {self.last}, {state}, {self.connections} connections>"

    def run(self, gate: Any = None) -> None:
        """Listen. Parks: until `stop` is called. `gate`: a semaphore to pass for each connection that begins."""
        pause, longest = PAUSES
        turn = random.randrange(len(self.places))
        while not self.stopping:
            try:
                self.listen(self.places[turn % len(self.places)], gate)
            except OSError as error:
                self.error = error
            if self.ready:
                pause = PAUSES[0]
            self.ready = False
            turn += 1
            if not self.stopping:
                time.sleep(random.uniform(0, pause))
                pause = min(2 * pause, longest)

    def listen(self, place: Endpoint, gate: Any) -> None:
        """Hold one connection. Parks: until it ends. Raises: OSError."""
        if gate is None:
            self.sock = self.connect(place)
        else:
            with gate:
                self.sock = self.connect(place)
        with self.sock:
            if not self.stopping:
                self.converse(place)

    def connect(self, place: Endpoint) -> Any:
        sock = socket.create_connection((place.host, place.port), CONNECT_SECONDS)
        sock.settimeout(SILENCE_SECONDS)
        return sock

    def converse(self, place: Endpoint) -> None:
        protocol = PROTOCOLS[place.kind](f"{place.host}:{place.port}", self.topic, place.token)
        sock = self.sock
        sock.sendall(protocol.ask(self.last))
        while data := sock.recv(READ_SIZE):
            heard, answer = protocol.hear(data)
            for item in heard:
                self.note(item)
            if answer:
                sock.sendall(answer)

    def note(self, item: Heard) -> None:
        if "data" in item:
            self.last = item["id"]
            self.take(item)
        elif "last" in item or "subscribed" in item:
            self.begin(item["last"])
        elif "gap" in item or "lost" in item:
            self.gaps += 1
        elif "error" in item:
            raise ConnectionError(item["error"])

    def begin(self, last: str) -> None:
        if self.last is None:
            self.last = last  # else what we have missed is still to come
            if self.begun:
                self.begun(last)
        if not self.ready:
            self.ready = True
            self.connections += 1

    def stop(self) -> None:
        """Listen no more. Parks: never."""
        self.stopping = True
        if self.sock is not None:
            try:
                self.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def start(listener: Listener, gate: Any = None) -> Any:
    """Run a listener beside the caller. Returns: its thread."""
    thread = threading.Thread(target=listener.run, args=(gate,), name=repr(listener), daemon=True)
    thread.start()
    return thread
