"""Ask a server over several connections at once, one request after the other on each.

Arguments: the protocol, the port, how many connections, how many requests on each.
"""

from __future__ import annotations

import selectors
import socket
import sys

ASKED = {"echo": b"x" * 255 + b"\n", "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}
ENDS = {"echo": b"\n", "http": b"Hello World!"}
SECONDS = 60.0


def main(protocol: str, port: int, connections: int, requests: int) -> None:
    asked, end = ASKED[protocol], ENDS[protocol]
    selector = selectors.DefaultSelector()
    left = {}
    for _ in range(connections):
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
