"""The relay of the backup experiment: how long bytes take, and that they and every end of a stream get through."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest

from benchmarks.backup.relay import WINDOW, LinkDirection, RelayConnection

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "benchmarks.backup.relay"]


class Timeline:
    """A clock that jumps to the next alarm."""

    def __init__(self) -> None:
        self.now = 0.0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def clock(self) -> float:
        return self.now

    def call_later(self, delay: float, alarm: Callable[[], None]) -> None:
        heappush(self._alarms, (self.now + delay, next(self._number), alarm))

    def run(self, until: float = inf) -> None:
        while self._alarms and self._alarms[0][0] <= until:
            self.now, _, alarm = heappop(self._alarms)
            alarm()
        self.now = max(self.now, until if until < inf else 0.0)


class Transport:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def is_closing(self) -> bool:
        return "close" in self.told

    def __getattr__(self, name: str) -> Callable[[], None]:
        return lambda: self.told.append(name)


# ---- the line


def line(timeline: Timeline, delay: float = 1.0, rate: float = 1000.0) -> LinkDirection:
    return LinkDirection(delay, rate, timeline.call_later, timeline.clock)


def test_bytes_arrive_their_own_length_and_half_a_round_trip_later() -> None:
    timeline, arrived = Timeline(), []
    wire = line(timeline)
    wire.carry(bytes(500), lambda data: arrived.append((timeline.now, len(data))))
    timeline.run()
    assert arrived == [(1.5, 500)] and wire.passed == 500


def test_a_line_that_was_idle_has_saved_nothing_up() -> None:
    timeline, arrived = Timeline(), []
    wire = line(timeline)
    timeline.run(until=10)
    for _ in range(2):
        wire.carry(bytes(500), lambda _: arrived.append(timeline.now))
    timeline.run()
    assert arrived == [11.5, 12.0]


# ---- one end


def ends() -> tuple[Timeline, RelayConnection, RelayConnection]:
    timeline = Timeline()
    near, far = RelayConnection(line(timeline)), RelayConnection(line(timeline))
    near.meet(far)
    far.meet(near)
    for each in (near, far):
        each.connection_made(Transport())
    return timeline, near, far


def told(end: RelayConnection) -> list[Any]:
    assert isinstance(end.transport, Transport)
    return end.transport.told


def test_who_sends_more_than_the_window_is_not_read_until_it_has_arrived() -> None:
    timeline, near, far = ends()
    near.data_received(bytes(WINDOW))
    assert told(near) == []
    near.data_received(b"x")
    assert told(near) == ["pause_reading"]
    timeline.run()
    assert told(near) == ["pause_reading", "resume_reading"] and b"".join(told(far)) == bytes(WINDOW) + b"x"


# ---- over sockets


@dataclass
class Stretch:
    """A listening server, and the relay in front of it."""

    listener: socket.socket
    process: subprocess.Popen[str]
    port: int

    def connected(self) -> tuple[socket.socket, socket.socket]:
        """A client and what the server accepted for it."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        server, _ = self.listener.accept()
        server.settimeout(20)
        return client, server


@pytest.fixture
def stretch() -> Iterator[Stretch]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        place = "{}:{}".format(*listener.getsockname())
        with relay("--to", place, "--rtt", "1ms", "--rate", "unlimited") as process:
            assert process.stdout
            yield Stretch(listener, process, json.loads(process.stdout.readline())["port"])


@contextmanager
def relay(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def received(sock: socket.socket) -> bytes:
    """All bytes until the end."""
    found = b""
    while data := sock.recv(1 << 20):
        found += data
    return found


def test_megabytes_pass_as_they_were_and_are_counted(stretch: Stretch) -> None:
    data = os.urandom(3_000_000)
    client, server = stretch.connected()

    def send() -> None:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)

    with client, server:
        sender = threading.Thread(target=send)
        sender.start()
        assert received(server) == data
        sender.join()
        server.sendall(b"thanks")
        server.close()
        assert received(client) == b"thanks"  # after its own end: the other direction was still open
    stretch.process.send_signal(signal.SIGTERM)
    assert stretch.process.stdout
    report = json.loads(stretch.process.stdout.read())
    assert (report["up"], report["down"], report["connections"]) == (len(data), 6, 1)
    assert report["cpu"] > 0 and report["history"]


def test_a_sender_is_held_while_the_server_reads_nothing(stretch: Stretch) -> None:
    client, server = stretch.connected()
    with client, server:
        client.setblocking(False)
        sent = 0
        for _ in range(100):
            try:
                sent += client.send(bytes(1 << 20))
            except BlockingIOError:
                time.sleep(0.005)
        assert sent < 30_000_000  # of 100: what the window and the sockets' own buffers hold
