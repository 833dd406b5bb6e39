"""A notification server and listeners on two hosts of a simulated network, for programs that a simulation runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dhaga.simulation import current

from .client_protocols import Heard
from .listener import Endpoint, Listener, start
from .server import NotificationServer
from .service import Service
from .settings import Settings

TOPIC = "news"


@contextmanager
def listening(takers: Sequence[Callable[[Heard], object]]) -> Iterator[Service]:
    """Run a server, and for each taker a listener of ``TOPIC`` that calls it. Returns: the service, to publish by.

    Parks: until all listeners have begun; at the end until they have stopped, and the server after them.
    """
    network = current().network
    server, client = network.host("server"), network.host("client")
    up, stop = threading.Event(), threading.Event()
    servers: list[NotificationServer] = []

    def serve() -> None:
        with NotificationServer(Settings(host="")) as running:
            servers.append(running)
            up.set()
            stop.wait()

    def listen() -> list[Listener]:
        place = Endpoint("sse", server.address, servers[0].address[1])
        return [Listener([place], TOPIC, take) for take in takers]

    serving = server.spawn(serve)
    up.wait()
    listeners = client.spawn(listen).result()
    threads = [client.spawn(start, each).result() for each in listeners]
    while not all(each.last for each in listeners):
        time.sleep(1)
    yield servers[0].service
    for each in listeners:
        each.stop()
    for thread in threads:
        thread.join()
    stop.set()
    serving.join()
