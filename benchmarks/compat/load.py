"""Ask a server over several connections at once, one request after the other on each.

A separate program, which ``load`` starts. Arguments: the protocol, the port, the number of requests per connection.
"""

from __future__ import annotations

import selectors
import socket
import subprocess
import sys
from collections.abc import Callable

ASKED = {"echo": b"x" * 255 + b"\n", "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}
ENDS = {"echo": b"\n", "http": b"Hello World!"}
CONNECTIONS = 20
SECONDS = 60.0


def load(protocol: str, port: int, requests: int, sleep: Callable[[float], object]) -> None:
    """Load a server of this process from a separate process, whose CPU time does not count, and sleep meanwhile."""
    asking = subprocess.Popen([sys.executable, "-m", __name__, protocol, str(port), str(requests)])
    while asking.poll() is None:
        sleep(0.02)
    if asking.returncode:
        raise RuntimeError(f"the load of {protocol} has failed: {asking.returncode}")


def main(protocol: str, port: int, requests: int) -> None:
    asked, end = ASKED[protocol], ENDS[protocol]
    selector = selectors.DefaultSelector()
    left = {}
    for _ in range(CONNECTIONS):
        client = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        client.sendall(asked)
        left[client] = requests
        selector.register(client, selectors.EVENT_READ)
    while left:
        ready = selector.select(SECONDS)
        if not ready:
            raise TimeoutError(f"no answer for {SECONDS} s")
        for key, _ in ready:
            client = key.fileobj  # type: ignore[assignment]
            received = client.recv(65536)
            if not received:
                raise ConnectionError("the server has closed a connection")
            if not received.endswith(end):
                continue
            left[client] -= 1
            if left[client]:
                client.sendall(asked)
            else:
                selector.unregister(client)
                del left[client]
                client.close()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
