"""The notification server with listeners of each kind, some of them slow, while the network and the server fail.

No acknowledged message is lost, unless its listener is told of a gap; none comes twice, or out of order.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading
import time
from typing import Any

from dhaga.simulation import current
from examples.notifications.broker import Limits
from examples.notifications.client_protocols import PROTOCOLS, Heard
from examples.notifications.listener import Endpoint, Listener, start
from examples.notifications.messages import Id
from examples.notifications.server import NotificationServer
from examples.notifications.settings import Settings

PORT, LINE_PORT = 8000, 8001

MESSAGES = 25
LONG = 200_000
"""Bytes of the long messages: two or three fill the buffers of a connection whose client does not read."""

FAULTS_END = 60.0

PATIENCE = 200.0
"""Seconds after which each listener has noticed a dead connection, come back, and got what it has missed."""

BETWEEN = [["clients"], ["server"]]
FAULTS: dict[str, Any] = {
    "hosts": {"clients": "", "server": ""},
    "faults": [
        {"kind": "partition", "between": BETWEEN, "at": [0, 30], "seconds": [1, 25]},
        {"kind": "one-way", "between": BETWEEN[::-1], "at": [0, 30], "seconds": [1, 25]},
        {"kind": "reset", "host": "clients", "at": [0, 30], "share": 0.5},
        {"kind": "half-open", "host": "server", "at": [0, 30], "share": 0.5},
        {"kind": "half-open", "host": "clients", "at": [0, 30], "share": 0.5},
        {"kind": "stall", "host": "clients", "at": [0, 30], "seconds": [1, 20], "share": 0.5},
        {"kind": "kill", "host": "server", "at": [0, 40], "seconds": [0.1, 10]},
    ],
}


class Hearing(Listener):
    """A listener that keeps what it has heard, in order; None for a gap. A slow one pauses, and reads nothing then."""

    def __init__(self, kind: str, pauses: int) -> None:
        address = current().network.hosts.find("server").address
        super().__init__([Endpoint(kind, address, LINE_PORT if kind == "tcp" else PORT)], "news", self.keep)
        self.begun = self.keep_beginning
        self.pauses = pauses
        self.began: Id | None = None
        self.heard: list[tuple[Id, str] | None] = []

    def keep_beginning(self, last: str) -> None:
        self.began = Id.parse(last)

    def keep(self, message: Heard) -> None:
        self.heard.append((Id.parse(message["id"]), message["data"]))
        if self.pauses and random.random() < 0.2:
            self.pauses -= 1
            time.sleep(random.uniform(0, 40))

    def note(self, item: Heard) -> None:
        if "gap" in item or "lost" in item:
            self.heard.append(None)
        super().note(item)

    def check(self, acknowledged: dict[Id, str]) -> None:
        """Check that each acknowledged message is there, in order, or followed by a gap."""
        assert self.began is not None
        last, gap = self.began, False
        for item in self.heard:
            if item is None:
                gap = True
                continue
            id, text = item
            assert id > last, f"{self.places[0].kind}: {id} comes after {last}"
            assert acknowledged.get(id, text) == text
            lost = [str(each) for each in acknowledged if last < each < id]
            assert gap or not lost, f"{self.places[0].kind}: {lost} are lost before {id}"
            last, gap = id, False


class Publisher:
    """Publishes, and keeps what was acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[Id, str] = {}
        self.address = current().network.hosts.find("server").address

    def publish(self, text: str) -> bool:
        """Publish a message. Returns: whether it was acknowledged."""
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            id = Id.parse(random.choice((self.by_line, self.by_http))(text))
            assert id > max(self.acknowledged, default=Id(0, 0)), f"{id} is not a new id"
            self.acknowledged[id] = text
            return True
        return False

    def by_line(self, text: str) -> str:
        with socket.create_connection((self.address, LINE_PORT), 5) as sock, sock.makefile("rb") as answers:
            sock.sendall(f"PUB news {text}\n".encode())
            answer = answers.readline().decode().split()
        if answer[:1] != ["OK"]:
            raise ConnectionError(answer)
        return answer[1]

    def by_http(self, text: str) -> str:
        with contextlib.closing(http.client.HTTPConnection(self.address, PORT, timeout=5)) as connection:
            connection.request("POST", "/topics/news", text)
            answer = connection.getresponse()
            if answer.status != 200:
                raise ConnectionError(answer.reason)
            return str(json.loads(answer.read())["id"])

    def publish_all(self) -> None:
        """Publish some messages while there are faults, then one that is acknowledged in the end."""
        for number in range(MESSAGES):
            self.publish(f"{number}:" + "x" * random.choice((0, LONG)))
            time.sleep(random.uniform(0, 2 * FAULTS_END / MESSAGES) if random.random() < 0.5 else 0)
        time.sleep(FAULTS_END)
        while not self.publish("last"):
            time.sleep(1)


def serve(settings: Settings) -> None:
    with NotificationServer(settings):
        threading.Event().wait()


def program() -> None:
    network = current().network
    server, clients = network.hosts.find("server"), network.hosts.find("clients")
    limits = Limits(message=2 * LONG, history=random.choice((1000, 4)), queue=random.choice((256, 3)))
    policy: Any = random.choice(("drop", "disconnect"))
    server.start(serve, Settings("", PORT, LINE_PORT, limits=limits, policy=policy))
    listeners = [Hearing(kind, pauses) for pauses in (0, 3) for kind in random.sample([*PROTOCOLS], 3)]
    threads = [clients.spawn(start, each).result() for each in listeners]
    publisher = Publisher()
    clients.spawn(publisher.publish_all).result()
    time.sleep(PATIENCE)
    for each in listeners:
        assert each.heard[-1] and each.heard[-1][1] == "last", f"{each!r} has not heard the last message"
        each.check(publisher.acknowledged)
        each.stop()
    for thread in threads:
        thread.join()
    server.kill()
