"""The minimum cost of a call: a bare epoll loop that sends requests and receives answers, but does not parse them.

`python -m benchmarks.pipeline.raw_client PORT CONNECTIONS SECONDS` runs this loop in a new process.
"""

import contextlib
import json
import select
import socket
import subprocess
import sys
from time import monotonic, process_time

from benchmarks.pipeline.backend import Backend
from benchmarks.pipeline.client import RECEIVE, REQUEST, connected


def measure(backend: Backend, connections: int, seconds: float, cpu: int) -> dict[str, float]:
    """Call the backend from one CPU. Returns: calls per second, and the CPU time per call in µs."""
    where = [sys.executable, "-m", "benchmarks.pipeline.raw_client", str(backend.port), str(connections), str(seconds)]
    done = subprocess.run(["taskset", "--cpu-list", str(cpu), *where], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def loop(socks: dict[int, socket.socket], seconds: float) -> int:
    """Send and receive for ``seconds`` seconds. Returns: the number of answered calls."""
    poller = select.epoll()
    for fd, sock in socks.items():
        poller.register(fd, select.EPOLLIN | select.EPOLLET)
        sock.send(REQUEST)
    calls, end = 0, monotonic() + seconds
    while monotonic() < end:
        for fd, _ in poller.poll(0.1):
            sock = socks[fd]
            sock.recv(RECEIVE)
            sock.send(REQUEST)
            calls += 1
    return calls


def main() -> None:
    """Measure, and print the figures."""
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connected(socket, port)) for _ in range(connections)]
        before = process_time()
        calls = loop({sock.fileno(): sock for sock in opened}, seconds)
        print(json.dumps({"rate": calls / seconds, "cpu": (process_time() - before) / calls * 1e6}))


if __name__ == "__main__":
    main()
