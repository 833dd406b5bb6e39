"""python -m examples.web.compare: the three ways beside each other, with many requests at once, in one table.

`report`: many clients request a report, which takes the backend a second each. `news`: many clients wait for news,
which is published a second after their requests. If the clients occupy all threads, the publisher has to wait for a
thread, and polls end without news. Each client is a dhaga of this process, and has its own connection.
"""

from __future__ import annotations

import argparse
import socket as standard
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import dhaga
from dhaga import socket

from .backend import SECONDS
from .servers import THREADS, WAYS, allow_connections, backend, served

SIZES = (200, 1000, 3000)
PATIENCE = 120.0  # seconds that a client waits for its answer
POLL = 3  # seconds after which a poll goes home without news
HEAD_START = 1.0  # seconds that polls have before the news come: by then they wait, or queue up for a thread
HEAD = ("way", "what", "at once", "finished", "seconds", "median s", "99 % s", "MB")
WIDTHS = (10, 8, 8, 9, 8, 9, 7, 6)


@dataclass
class RequestBatch:
    """What became of many requests at once: how long each took, in seconds, of those that were answered with 200."""

    count: int
    seconds: float
    latencies: list[float]

    def cells(self) -> list[str]:
        """Return what a line of the table tells of it."""
        times = sorted(self.latencies) or [float("nan")]
        late = times[int(0.99 * (len(times) - 1))]
        cells = [f"{self.count:,}", f"{len(self.latencies):,}", f"{self.seconds:.1f}"]
        return [*cells, f"{statistics.median(times):.1f}", f"{late:.1f}"]


def ask(port: int, path: str, form: dict[str, str] | None = None) -> bool:
    """Send one request. Returns: whether the answer is a good one."""
    body = urlencode(form or {})
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        sock.sendall(
            f"{'POST' if form else 'GET'} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        with sock.makefile("rb") as answer:
            status: bytes = answer.readline()
            answer.read()
    return status.split()[1:2] == [b"200"]


def batch(count: int, path: str, port: int, then: Callable[[], object] | None = None) -> RequestBatch:
    """Send so many requests at once, do what is to be done `then`, and wait for all answers."""
    latencies: list[float] = []

    def client() -> None:
        began = time.monotonic()
        try:
            if ask(port, path):
                latencies.append(time.monotonic() - began)
        except OSError:
            pass  # not finished: the table tells

    began = time.monotonic()
    clients = [dhaga.spawn(client) for _ in range(count)]
    if then is not None:
        then()
    for each in clients:
        each.join()
    return RequestBatch(count, time.monotonic() - began, latencies)


def memory_of(group: int) -> float:
    """Return what the processes of a group hold, in MB."""
    listed = subprocess.run(["ps", "-A", "-o", "pgid=,rss="], capture_output=True, text=True, check=True).stdout
    lines = (line.split() for line in listed.splitlines())
    return sum(int(size) for pgid, size in lines if int(pgid) == group) / 1e3


def reports(size: int, port: int) -> RequestBatch:
    """Let so many clients ask for a report each."""
    return batch(size, "/report/7", port)


def news(size: int, port: int, seen: int) -> RequestBatch:
    """Let so many clients wait for the next piece of news, then publish it."""

    def bring() -> None:
        dhaga.sleep(HEAD_START)
        ask(port, "/news", {"text": "hello"})

    return batch(size, f"/news?since={seen}&wait={POLL}", port, bring)


def measured(way: str, sizes: Iterable[int], url: str, threads: int = THREADS) -> Iterator[list[str]]:
    """Serve the app in one way, and yield a line of the table for each batch."""
    with standard.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with served(way, port, url, threads) as group:
        for number, size in enumerate(sizes):
            yield [way, "report", *reports(size, port).cells(), f"{memory_of(group):.0f}"]
            yield [way, "news", *news(size, port, number).cells(), f"{memory_of(group):.0f}"]


def line(cells: Iterable[str]) -> str:
    """Lay out a line of the table: words to the left, numbers to the right."""
    left, *rest = zip(cells, WIDTHS, strict=True)
    texts = [cell.ljust(width) for cell, width in (left, rest[0])]
    return "  ".join(texts + [cell.rjust(width) for cell, width in rest[1:]])


def main() -> None:
    """Print the table, line by line."""
    parser = argparse.ArgumentParser(prog="python -m examples.web.compare")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, metavar="N", help="requests at once")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"that the backend takes ({SECONDS:g})")
    parser.add_argument("--threads", type=int, default=THREADS, metavar="N", help=f"of the first way ({THREADS})")
    options = parser.parse_args()
    allow_connections()
    print(line(HEAD))
    with backend(options.seconds) as url:
        for way in options.ways:
            for cells in measured(way, options.sizes, url, options.threads):
                print(line(cells), flush=True)


if __name__ == "__main__":
    main()
