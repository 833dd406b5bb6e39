"""The clients: `python -m dhaga -m benchmarks.threading_mode.load KIND PORT CLIENTS EACH`.

It prints `begin`, and at the end the answers per second.
The rate is measured from when all clients have connected and had one answer. Each client checks its answers.
"""

import http.client
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import websocket

PATIENCE = 60.0
Ask = Callable[[int], None]


def by_http(port: int) -> Ask:
    """Return a function that requests the page that waits, over a kept connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.connect()

    def ask(_: int) -> None:
        connection.request("GET", "/wait")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"done")

    return ask


def by_socketio(port: int) -> Ask:
    """Return a function that emits an event with an acknowledgement, over a new WebSocket."""
    url = f"ws://127.0.0.1:{port}/socket.io/?EIO=4&transport=websocket"
    sock: Any = websocket.create_connection(url, timeout=PATIENCE)
    assert sock.recv().startswith("0")  # Engine.IO's open
    sock.send("40")
    assert sock.recv().startswith("40")  # Socket.IO's connect

    def ask(number: int) -> None:
        sock.send(f'42{number}["wait",{number}]')
        while (answer := sock.recv()) == "2":  # a ping
            sock.send("3")
        assert answer == f"43{number}[{number}]", answer

    return ask


KINDS = {"http": by_http, "socketio": by_socketio}


def measure(kind: str, port: int, clients: int, each: int) -> float:
    """Return answers per second."""
    connected = threading.Barrier(clients + 1)
    answers: list[int] = []

    def run() -> None:
        ask = KINDS[kind](port)
        ask(each)
        connected.wait(PATIENCE)
        for number in range(each):
            ask(number)
            answers.append(number)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    connected.wait(PATIENCE)
    print("begin", flush=True)
    began = time.monotonic()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    if len(answers) != clients * each:
        raise SystemExit(f"{len(answers)} answers of {clients * each}")
    return len(answers) / seconds


if __name__ == "__main__":
    print(measure(sys.argv[1], *map(int, sys.argv[2:])))
