"""The load of the echo rows without a C compiler or epoll. It is far slower than `load.c`, with the same interface."""

import json
import selectors
import socket
import sys
from time import perf_counter, process_time


class Connection:
    """One connection with one message in flight."""

    def __init__(self, port: int, message: bytes) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._message = message
        self.say()
        if self.socket.recv(len(message), socket.MSG_WAITALL) != message:
            raise RuntimeError("the server does not echo")
        self.say()

    def say(self) -> None:
        """Send the message."""
        self._missing = len(self._message)
        self._sent_at = perf_counter()
        self.socket.sendall(self._message)

    def hear(self) -> float | None:
        """Read the available part of the echo. Returns: the latency in seconds; None if the message is incomplete."""
        self._missing -= len(self.socket.recv(self._missing))
        return None if self._missing else perf_counter() - self._sent_at

    def finish(self) -> None:
        """Wait for the message in flight, so that no server gets a reset."""
        self.socket.settimeout(2)
        self.socket.recv(self._missing, socket.MSG_WAITALL)


def run(selector: selectors.BaseSelector, seconds: float) -> list[float]:
    """Send messages and receive echoes for ``seconds`` seconds. Returns: the latencies in seconds."""
    latencies = []
    end = perf_counter() + seconds
    while perf_counter() < end:
        for key, _ in selector.select(1):
            latency = key.data.hear()
            if latency is not None:
                latencies.append(latency)
                key.data.say()
    return latencies


def main() -> None:
    """Take the arguments of `load.c`."""
    port, count, size = map(int, sys.argv[1:4])
    warm_up, seconds = map(float, sys.argv[4:6])
    connections = [Connection(port, bytes(size)) for _ in range(count)]
    selector = selectors.DefaultSelector()
    for each in connections:
        selector.register(each.socket, selectors.EVENT_READ, each)
    run(selector, warm_up)
    print("measuring", flush=True)
    started, cpu = perf_counter(), process_time()
    latencies = sorted(run(selector, seconds))
    elapsed, cpu = perf_counter() - started, process_time() - cpu
    at = {name: latencies[int(share * len(latencies))] * 1e6 for name, share in (("p50", 0.5), ("p99", 0.99))}
    print(json.dumps({"rate": len(latencies) / elapsed, **at, "cpu": cpu / elapsed}), flush=True)
    for each in connections:
        each.finish()


if __name__ == "__main__":
    main()
