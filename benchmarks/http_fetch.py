"""`dhaga.http.HTTPClient` beside Tornado's own `AsyncHTTPClient` in coroutines: `python -m benchmarks.http_fetch`.

Both use the same underlying client (simple, and curl if pycurl is installed), the same kind of loop (asyncio's, with a
selector), and the same server, which runs in another process on another CPU. One worker per request in flight fetches
one page after another. The two take turns within each round, and each comes first in every second round. The target
applies to the median of the ratios of requests per second within a round. `max_clients` is the same for both.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

from tornado.httpclient import AsyncHTTPClient

import dhaga
from benchmarks.machine import cpus, raise_file_limit, surroundings
from dhaga.http import HTTPClient

IN_FLIGHT = (1, 32, 512)
REQUESTS = {1: 600, 32: 1_200, 512: 1_536}
ROUNDS = 9
CLIENTS = 600  # `max_clients` of both; more than are ever in flight
REST = 0.1  # seconds before each sample: the server still closes the connections of the one before
TARGET = 0.9
"""The target: this fraction of the requests per second of Tornado's client, at each number of requests in flight."""

RIVALS = "dhaga", "tornado"
SIMPLE, CURL = "simple", "curl"
KINDS = {
    SIMPLE: "tornado.simple_httpclient.SimpleAsyncHTTPClient",
    CURL: "tornado.curl_httpclient.CurlAsyncHTTPClient",
}
SERVER = """
import asyncio, os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {int(sys.argv[1])})
PAGE = b"HTTP/1.1 200 OK\\r\\nContent-Length: 1024\\r\\n%s\\r\\n" + bytes(1024)
class Page(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while self.data.find(b"\\r\\n\\r\\n") >= 0:
            head, _, self.data = self.data.partition(b"\\r\\n\\r\\n")
            last = b"connection: close" in head.lower()
            self.transport.write(PAGE % (b"Connection: close\\r\\n" if last else b""))
            if last:
                self.transport.close()
async def main():
    server = await asyncio.get_running_loop().create_server(Page, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

Sample = dict[str, float]
"""Requests per second, and microseconds of this process's CPU time per request."""


@contextmanager
def _serving() -> Iterator[str]:
    """Run the server on a separate CPU, and yield the URL of its page."""
    pinned = cpus()
    if pinned is not None:
        os.sched_setaffinity(0, {pinned[0]})
    command = [sys.executable, "-c", SERVER, *([str(pinned[1])] if pinned else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.kill()


def _sample(count: int, work: Callable[[], object]) -> Sample:
    sleep(REST)
    began, began_cpu = perf_counter(), process_time()
    work()
    seconds, cpu = perf_counter() - began, process_time() - began_cpu
    return {"rate": count / seconds, "cpu": cpu / count * 1e6}


def _in_dhagas(client: HTTPClient, url: str, in_flight: int, each: int) -> None:
    def worker() -> None:
        for _ in range(each):
            assert len(client.fetch(url).body) == 1024

    for dhaga_ in [dhaga.spawn(worker) for _ in range(in_flight)]:
        dhaga_.result()


async def _in_coroutines(client: AsyncHTTPClient, url: str, in_flight: int, each: int) -> None:
    async def worker() -> None:
        for _ in range(each):
            response = await client.fetch(url)
            assert len(response.body) == 1024

    await asyncio.gather(*(worker() for _ in range(in_flight)))


async def _client_of_tornado() -> AsyncHTTPClient:
    return AsyncHTTPClient(force_instance=True, max_clients=CLIENTS)


async def _close(client: AsyncHTTPClient) -> None:
    client.close()


def _rounds(url: str, rounds: int) -> Iterator[tuple[int, dict[str, Sample]]]:
    """Measure both in turn with the kind of client that Tornado is configured for. The first round is the warm-up."""
    with HTTPClient(max_clients=CLIENTS) as ours, asyncio.Runner() as runner:
        theirs = runner.run(_client_of_tornado())
        for number in range(rounds + 1):
            for in_flight in IN_FLIGHT:
                each = REQUESTS[in_flight] // in_flight
                job = (url, in_flight, each)
                rivals = {
                    "dhaga": lambda job=job: dhaga.spawn(_in_dhagas, ours, *job).result(),
                    "tornado": lambda job=job: runner.run(_in_coroutines(theirs, *job)),
                }
                order = sorted(rivals, reverse=bool(number % 2))
                samples = {name: _sample(in_flight * each, rivals[name]) for name in order}
                if number:
                    yield in_flight, samples
        runner.run(_close(theirs))


def _measured(rounds: int) -> dict[str, dict[str, list[Sample]]]:
    """Return the samples of each row and rival, one for each round."""
    found: dict[str, dict[str, list[Sample]]] = {}
    with _serving() as url:
        for kind, name in KINDS.items():
            if kind == CURL and find_spec("pycurl") is None:
                continue
            AsyncHTTPClient.configure(name)
            for in_flight, samples in _rounds(url, rounds):
                for rival, sample in samples.items():
                    found.setdefault(f"{kind}, {in_flight} in flight", {}).setdefault(rival, []).append(sample)
    return found


def _ratio(rivals: dict[str, list[Sample]], key: str) -> float:
    """Return the median over the rounds of Dhaga's figure divided by Tornado's."""
    pairs = zip(rivals["dhaga"], rivals["tornado"], strict=True)
    return statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)


def _line(row: str, rivals: dict[str, list[Sample]]) -> str:
    medians = {name: {k: statistics.median(s[k] for s in each) for k in each[0]} for name, each in rivals.items()}
    cells = [f"{name} {medians[name]['rate']:5.0f}/s ({medians[name]['cpu']:3.0f} µs CPU)" for name in RIVALS]
    return f"{row:21} {', '.join(cells)}: rate x {_ratio(rivals, 'rate'):.2f}, CPU x {_ratio(rivals, 'cpu'):.2f}"


def main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_fetch")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args()
    raise_file_limit()
    samples = _measured(options.rounds)
    for row, rivals in samples.items():
        print(_line(row, rivals))
    ratios = {row: _ratio(rivals, "rate") for row, rivals in samples.items()}
    missed = [row for row, ratio in ratios.items() if round(ratio, 2) < TARGET]
    print(f"target, at least {TARGET}: {'missed by ' + '; '.join(missed) if missed else 'reached'}")
    if options.json:
        results: dict[str, Any] = {"where": surroundings(rounds=options.rounds), "samples": samples}
        options.json.write_text(json.dumps(results | {"ratios": ratios}, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
