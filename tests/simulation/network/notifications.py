"""The notification server with its listeners, under faults of the network: each listener hears each message once."""

from __future__ import annotations

import threading
import time
from typing import Any

from dhaga.simulation import current
from examples.notifications.listener import Endpoint, Listener, start
from examples.notifications.server import NotificationServer
from examples.notifications.settings import Settings

MESSAGES = 5

FAULTS: dict[str, Any] = {
    "faults": [
        {"kind": "partition", "between": ["client", "server"], "every": 60, "seconds": [1, 20]},
        {"kind": "reset", "host": "client", "every": 30, "share": 0.5},
        {"kind": "stall", "host": "client", "every": 40, "seconds": [1, 10], "share": 0.3},
    ]
}

SILENT: dict[str, Any] = {"faults": [{"kind": "half-open", "host": "server", "every": 60, "share": 0.5}]}
"""Half of the connections break off at the server, of which their listeners hear nothing."""


def program() -> None:
    network = current().network
    server, client = network.host("server"), network.host("client")
    up, stop = threading.Event(), threading.Event()
    servers: list[NotificationServer] = []
    heard: dict[int, list[str]] = {number: [] for number in range(4)}

    def serve() -> None:
        with NotificationServer(Settings(host="")) as running:
            servers.append(running)
            up.set()
            stop.wait()

    def listen() -> list[Any]:
        place = Endpoint("sse", server.address, servers[0].address[1])
        return [
            Listener([place], "news", lambda item, number=number: heard[number].append(item["data"]))  # type: ignore[misc]
            for number in heard
        ]

    serving = server.spawn(serve)
    up.wait()
    listeners = client.spawn(listen).result()
    threads = [client.spawn(start, each).result() for each in listeners]
    while not all(each.last for each in listeners):
        time.sleep(1)
    for number in range(MESSAGES):
        servers[0].service.publish("news", b"message %d" % number)
        time.sleep(30)
    time.sleep(1000)
    for each in listeners:
        each.stop()
    for thread in threads:
        thread.join()
    stop.set()
    serving.join()
    assert heard == {number: [f"message {each}" for each in range(MESSAGES)] for number in heard}
