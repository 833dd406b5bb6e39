"""The notification server on dhagas, on a thread for each client, and on gevent: `python -m benchmarks.notifications`.

All rivals run the same source of `examples.notifications`: its broker, courier and line protocol, on the three runtimes
of `examples.notifications.runtime`. Each server has a dhaga, thread or greenlet for each client, which reads the
client's messages, and one more, which writes messages to all clients. Only the accept loop differs: Dhaga uses its
TCPServer, and the others a plain loop. Redis and the HTTP endpoints are not included, because they need Dhaga.

The server is pinned to one CPU, and the client program, the same for all, to another. The rivals take turns. A latency
is the time from the post of a message until the client program has read it, so a broadcast's latency includes the work
of both programs. Memory is the growth of the server's resident bytes since before the clients connected.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import cpu_in, stat_of

RIVALS: Final = ("dhaga", "threads", "gevent")
RESULTS: Final = Path(__file__).parent / "results" / "notifications.json"
PATIENCE: Final = 180.0  # maximum seconds of one run


@dataclass
class Sample:
    """The figures of one run: the server's CPU time and memory, and the latencies of its messages."""

    connected: int
    delivered: int
    expected: int
    p50: float  # seconds
    p99: float
    max: float
    bytes_per_client: float
    cpu_per_connection: float  # seconds
    cpu_per_delivery: float
    client_cpu: float


def serve(clients: int) -> None:
    """Run a server on the runtime that the environment names, until the standard input ends."""
    from examples.notifications.__main__ import raise_descriptor_limit
    from examples.notifications.line_protocol import LineHandler
    from examples.notifications.runtime import Server, threading
    from examples.notifications.service import Service

    raise_descriptor_limit()
    service = Service(heartbeat=600.0)  # no heartbeat is due during a run
    service.start()
    server = Server(LineHandler(service), ("127.0.0.1", 0), max_connections=clients + 100, name="lines")
    server.start()
    print(server.address[1], flush=True)
    threading.Event().wait()


def cpu_seconds(process: int) -> float:
    """Return the CPU time that another process has used so far."""
    return cpu_in(stat_of(process))


def resident(process: int) -> int:
    """Return the resident bytes of another process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(command: list[str], cpu: int, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process on one CPU, and kill it at the end of the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})
    try:
        os.sched_setaffinity(process.pid, {cpu})
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> Any:
    """Read the next line of a process. Raises: RuntimeError if the process has ended."""
    assert process.stdout
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} broke off")
    return json.loads(line)


def measure(rival: str, clients: int, messages: int, rate: float) -> Sample:
    """Run one server and its clients. Raises: RuntimeError."""
    me = [sys.executable, "-m", "benchmarks.notifications", "--serve", "--clients", str(clients)]
    cpus = sorted(os.sched_getaffinity(0))
    with running(me, cpus[0], NOTIFICATIONS_RUNTIME=rival) as server:
        url = f"tcp://127.0.0.1:{line_of(server)}"
        time.sleep(0.5)
        empty, idle = resident(server.pid), cpu_seconds(server.pid)
        load = [sys.executable, "-m", "examples.notifications.client", "--kind", "tcp", "--url", url, "--json"]
        options = ["--clients", clients, "--messages", messages, "--rate", rate, "--timeout", PATIENCE / 3]
        with running([*load, *map(str, options)], cpus[-1]) as client:
            connected = line_of(client)["connected"]
            begin, held = cpu_seconds(server.pid), resident(server.pid)
            report = line_of(client)
            end = cpu_seconds(server.pid)
    latency = report["latency"]
    return Sample(
        connected=connected,
        delivered=report["delivered"],
        expected=report["expected"],
        p50=latency["p50"],
        p99=latency["p99"],
        max=latency["max"],
        bytes_per_client=(held - empty) / connected,
        cpu_per_connection=(begin - idle) / connected,
        cpu_per_delivery=(end - begin) / report["delivered"],
        client_cpu=report["cpu"],
    )


def show(samples: dict[str, list[Sample]]) -> None:
    """Print medians over the rounds."""
    heads = ("clients", "arrived", "p50/ms", "p99/ms", "max/ms", "KB each")
    print(f"{'':8} {' '.join(f'{head:>8}' for head in heads)} {'µs CPU a delivery':>18}")
    for rival, runs in samples.items():
        middle = {name: statistics.median(asdict(run)[name] for run in runs) for name in asdict(runs[0])}
        arrived = middle["delivered"] / middle["expected"]
        times = " ".join(f"{middle[name] * 1000:8.0f}" for name in ("p50", "p99", "max"))
        print(
            f"{rival:8} {middle['connected']:8.0f} {arrived:8.0%} {times} {middle['bytes_per_client'] / 1024:8.1f} "
            f"{middle['cpu_per_delivery'] * 1e6:18.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rounds, print the results, and save every sample."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.notifications", description="Broadcast to many clients."
    )
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1.0, help="messages a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=RIVALS, default=RIVALS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.clients)
        return 0
    samples: dict[str, list[Sample]] = {}
    failures: dict[str, str] = {}
    for _ in range(options.rounds):
        for rival in options.only:
            try:
                samples.setdefault(rival, []).append(measure(rival, options.clients, options.messages, options.rate))
            except RuntimeError as error:
                failures[rival] = str(error)
    samples = {rival: runs for rival, runs in samples.items() if runs}
    show(samples)
    kept = {rival: [asdict(run) for run in runs] for rival, runs in samples.items()}
    settings = {name: getattr(options, name) for name in ("clients", "messages", "rate", "rounds")}
    where = {"python": sys.version.split()[0], "nice": os.nice(0), "load average": os.getloadavg()}
    found = {**where, **settings, "samples": kept, "failures": failures}
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
