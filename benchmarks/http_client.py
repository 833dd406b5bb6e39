"""`dhaga.http.Session` beside requests on gevent and on threads: `python -m benchmarks.http_client`.

One worker per request in flight gets one page after another, over kept connections. Each sample is taken in a new
process on one CPU, and the server runs on another CPU. The rivals take turns within a round. The figure is requests per
second of the client's CPU time, which other work on the machine disturbs least; it is the median of the ratios within a
round. The rivals use a requests Session whose pool keeps as many connections as are in flight; gevent's process is
patched. In the rows `no environment`, all have `trust_env = False`. Otherwise requests searches the environment
variables for proxies twice per request, and Dhaga once and faster; the difference grows with the number of variables.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks.machine import cpus, raise_file_limit, surroundings

IN_FLIGHT = (1, 32, 512)
RIVALS = "dhaga", "gevent", "threads"
ROUNDS = 5
SECONDS = 1.0  # for which each worker sends requests, once all workers have had an answer
TARGET = 1.2
"""The target: this many times gevent's requests per CPU second, at each number of requests in flight."""

PATH = Path(__file__).parent / "results" / "http_client.json"
PAGE = b"hello, world\n"
SERVER = f"""
import asyncio, os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {{int(sys.argv[1])}})
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: {len(PAGE)}\\r\\n\\r\\n" + {PAGE!r}
class Page(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER * data.count(b"\\r\\n\\r\\n"))
async def main():
    server = await asyncio.get_running_loop().create_server(Page, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

Sample = dict[str, float]
"""Requests per second of wall-clock time, and per second of the client's CPU time."""

Spawn = Callable[[Callable[[], None]], Any]


class Meter:
    """Counts requests. The measurement begins once all workers have had an answer, and lasts ``SECONDS``."""

    def __init__(self, session: Any, url: str, in_flight: int) -> None:
        self.session = session
        self.url = url
        self.warming_up = in_flight
        self.counts: list[int] = []

    def work(self) -> None:
        """Get one page after another. From: each worker."""
        self.ask()
        self.warming_up -= 1
        if not self.warming_up:
            self.began, self.began_cpu = perf_counter(), process_time()
        while self.warming_up:
            self.ask()
        end = self.began + SECONDS
        count = 0
        while perf_counter() < end:
            self.ask()
            count += 1
        self.counts.append(count)
        self.ended, self.ended_cpu = perf_counter(), process_time()

    def ask(self) -> None:
        assert self.session.get(self.url).content == PAGE

    def sample(self) -> Sample:
        """Return the sample, after all workers have ended."""
        count = sum(self.counts)
        return {"by clock": count / (self.ended - self.began), "by CPU": count / (self.ended_cpu - self.began_cpu)}


def _run_dhaga(in_flight: int) -> tuple[Any, Spawn]:
    import dhaga
    from dhaga.http import Session

    return Session(), dhaga.spawn


def _run_gevent(in_flight: int) -> tuple[Any, Spawn]:
    from gevent import monkey

    monkey.patch_all()
    import gevent

    return _session_of_requests(in_flight), gevent.spawn


def _run_threads(in_flight: int) -> tuple[Any, Spawn]:
    import threading

    def spawn(fn: Callable[[], None]) -> Any:
        thread = threading.Thread(target=fn)
        thread.start()
        return thread

    return _session_of_requests(in_flight), spawn


def _session_of_requests(in_flight: int) -> Any:
    import requests

    session = requests.Session()
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=in_flight))
    return session


def _child(rival: str, url: str, in_flight: int, trust_env: bool) -> None:
    """Measure one sample in this process, and print it."""
    session, spawn = {"dhaga": _run_dhaga, "gevent": _run_gevent, "threads": _run_threads}[rival](in_flight)
    session.trust_env = trust_env
    meter = Meter(session, url, in_flight)
    for worker in [spawn(meter.work) for _ in range(in_flight)]:
        worker.join()
    print(json.dumps(meter.sample()))


@contextmanager
def _serving() -> Iterator[str]:
    """Run the server on a separate CPU, and yield the URL of its page."""
    pinned = cpus()
    command = [sys.executable, "-c", SERVER, *([str(pinned[1])] if pinned else [])]
    if pinned is not None:
        os.sched_setaffinity(0, {pinned[0]})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/"
        finally:
            process.kill()


def _sample(rival: str, url: str, in_flight: int, trust_env: bool) -> Sample:
    command = [sys.executable, "-m", "benchmarks.http_client", "--child", rival, url, str(in_flight), str(trust_env)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{rival}: {done.stderr}")
    found: Sample = json.loads(done.stdout)
    return found


def _measured(rounds: int) -> dict[str, dict[str, list[Sample]]]:
    """Return the samples of each row and rival, one for each round."""
    found: dict[str, dict[str, list[Sample]]] = {}
    with _serving() as url:
        for number in range(rounds):
            for in_flight in IN_FLIGHT:
                for trust_env in (True, False):
                    row = f"{in_flight} in flight{'' if trust_env else ', no environment'}"
                    for rival in RIVALS[:: -1 if number % 2 else 1]:
                        sample = _sample(rival, url, in_flight, trust_env)
                        found.setdefault(row, {}).setdefault(rival, []).append(sample)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def _ratio(rivals: dict[str, list[Sample]], key: str, rival: str) -> float:
    """Return the median over the rounds of Dhaga's figure divided by a rival's."""
    pairs = zip(rivals["dhaga"], rivals[rival], strict=True)
    return statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)


def _line(row: str, rivals: dict[str, list[Sample]]) -> str:
    cells = []
    for name, each in rivals.items():
        by_cpu, by_clock = (statistics.median(sample[key] for sample in each) for key in ("by CPU", "by clock"))
        cells.append(f"{name} {by_cpu:4.0f} ({by_clock:4.0f})")
    ratios = [
        f"x {_ratio(rivals, 'by CPU', name):.2f} ({_ratio(rivals, 'by clock', name):.2f}) {name}" for name in RIVALS[1:]
    ]
    return f"{row:29} {', '.join(cells)}: {', '.join(ratios)}"


def main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.http_client")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds ({ROUNDS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help=f"write all samples there, such as {PATH.name}")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        rival, url, in_flight, trust_env = options.child
        return _child(rival, url, int(in_flight), trust_env == "True")
    raise_file_limit()
    samples = _measured(options.rounds)
    print("requests per second of CPU time (and by the clock)")
    for row, rivals in samples.items():
        print(_line(row, rivals))
    ratios = {row: _ratio(rivals, "by CPU", "gevent") for row, rivals in samples.items()}
    missed = [row for row in ratios if "," not in row and round(ratios[row], 2) < TARGET]
    print(f"target, at least {TARGET} x gevent: {'missed by ' + '; '.join(missed) if missed else 'reached'}")
    if options.json:
        where = surroundings(rounds=options.rounds, loop=SECONDS) | {"environment variables": len(os.environ)}
        results = {"where": where, "samples": samples, "ratios": ratios}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
