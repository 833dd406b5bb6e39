"""From threading mode, before and after: `python -m benchmarks.threading_mode`.

Programs and services run as they are deployed on OS threads, and with the same code on dhagas, started by the command
in the page "From threading mode". The two take turns within each round. How many waits end per second, what CPU time
does a wait take, and what is the maximum memory of the process with its workers? Celery's pools are measured by `python
-m benchmarks.celery_pool`.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.machine import children, cpu_seconds, private_memory, raise_file_limit, surroundings
from benchmarks.threading_mode.report import page, shown

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 120.0
GLANCE = 0.05
"""Seconds between two readings of the memory."""

PACKAGES = ("oslo.service", "dask", "flask-socketio", "simple-websocket", "gunicorn", "websocket-client")
OPTIONS = ("--log-level", "error", "--worker-connections", "10000")
GUNICORN = ("-m", "gunicorn", *OPTIONS, "-b", "127.0.0.1:{port}", "benchmarks.threading_mode.site:app", "-k")
SERVE = ("-m", "dhaga", "serve", "benchmarks.threading_mode.site:app", "--bind", "127.0.0.1:{port}")


@dataclass(frozen=True)
class Size:
    """The number of simultaneous waits, the total number of waits, and the seconds of a wait."""

    at_once: int
    each: int
    seconds: float

    @property
    def waits(self) -> int:
        return self.at_once * self.each


SIZE, QUICK = Size(500, 10, 0.1), Size(4, 2, 0.01)


@dataclass(frozen=True)
class Way:
    """One way to run a program. ``load``: the kind of a service's clients; empty for a program with its own work."""

    row: str
    name: str
    command: tuple[str, ...]
    load: str = ""


def ways() -> list[Way]:
    """Return all ways. The ways of a row are adjacent, and threads come first."""
    oslo, dask, site = (str(HERE / f"{name}.py") for name in ("oslo_jobs", "dask_tasks", "site"))
    return [
        Way("oslo.service, a thread a job", "threads", (oslo,)),
        Way("oslo.service, a thread a job", "dhaga", ("-m", "dhaga", oslo)),
        Way("Dask's threads", "threads", (dask,)),
        Way("Dask's threads", "dhaga", ("-m", "dhaga", dask)),
        Way("Flask-SocketIO", "threads", (site, "{port}"), "socketio"),
        Way("Flask-SocketIO", "dhaga", SERVE, "socketio"),
        Way("gunicorn", "gthread, 32 threads", (*GUNICORN, "gthread", "--threads", "32"), "http"),
        Way("gunicorn", "gthread, a thread a client", (*GUNICORN, "gthread", "--threads", "{at_once}"), "http"),
        Way("gunicorn", "dhaga", (*GUNICORN, "dhaga.integrations.gunicorn.Worker"), "http"),
        Way("gunicorn", "dhaga serve", SERVE, "http"),
    ]


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def running(words: list[str], log: Any, size: Size) -> Iterator[subprocess.Popen[str]]:
    """Run Python with these arguments. At the end of the block, kill its remaining processes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "THREADING_MODE_SECONDS": str(size.seconds)}
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def listening(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until a process listens at the port. Raises: RuntimeError if ``process`` ends before."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the service does not listen") from None
            time.sleep(GLANCE)


class MemoryWatch(threading.Thread):
    """A thread that reads the memory of a process and its children during a block. ``most``: the maximum in bytes."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self.process = process
        self.most = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(GLANCE):
            with suppress(OSError):  # a process has ended meanwhile
                self.most = max(self.most, sum(map(private_memory, family(self.process))))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


def family(process: int) -> tuple[int, ...]:
    """Return a process and its children."""
    return process, *children(process)


def cpu(process: int) -> float:
    """Return the CPU seconds that a process and its children have used."""
    return sum(cpu_seconds(each) or 0 for each in family(process))


def watch(measured: subprocess.Popen[str], timed: subprocess.Popen[str], waits: int) -> dict[str, float]:
    """Wait until a process prints its rate. Returns: the rate, and CPU µs per wait and maximum MB of ``measured``."""
    assert timed.stdout is not None
    late = threading.Timer(PATIENCE, timed.kill)
    late.start()
    try:
        with MemoryWatch(measured.pid) as memory:
            begins, before = timed.stdout.readline(), cpu(measured.pid)
            rate, used = timed.stdout.readline(), cpu(measured.pid) - before
        if begins != "begin\n" or not rate:
            raise RuntimeError(f"status {timed.wait()}")
    finally:
        late.cancel()
    return {"rate": float(rate), "cpu": 1e6 * used / waits, "memory": memory.most / 1e6}


def sample(way: Way, size: Size) -> dict[str, float]:
    """Measure once. Raises: RuntimeError with the last output of a process that fails."""
    port = free_port()
    words = [word.format(port=port, at_once=size.at_once) for word in way.command]
    with tempfile.TemporaryFile("w+") as log:
        try:
            if not way.load:
                counts = [str(size.at_once), str(size.waits), str(size.seconds)]
                with running([*words, *counts], log, size) as program:
                    return watch(program, program, size.waits)
            load = ["-m", "dhaga", "-m", "benchmarks.threading_mode.load", way.load, str(port)]
            with running(words, log, size) as service:
                listening(port, service)
                with running([*load, str(size.at_once), str(size.each)], log, size) as clients:
                    return watch(service, clients, size.waits)
        except RuntimeError as error:
            log.seek(0)
            raise RuntimeError(f"{way.row}, {way.name}: {error}: {log.read()[-1000:]}") from error


def run(size: Size, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each way, with the samples of all rounds and their medians. Print the progress."""
    found: dict[Way, list[dict[str, float]]] = {way: [] for way in ways()}
    for number in range(rounds):
        for way, samples in found.items():
            samples.append(sample(way, size))
            print(f"round {number + 1}: {way.row}, {way.name}: {samples[-1]}", file=sys.stderr, flush=True)
    rows = []
    for way, samples in found.items():
        medians = {key: statistics.median(each[key] for each in samples) for key in samples[0]}
        rows.append({"row": way.row, "way": way.name, **medians, "samples": samples})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.threading_mode",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the smallest size: checks that all of it runs")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="3 unless given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write the figures")
    parser.add_argument(
        "--page", action="store_true", help="print the recorded figures, with Celery's, as the page does"
    )
    options = parser.parse_args()
    if options.page:
        return print(page())
    raise_file_limit()
    size, rounds = (QUICK, 1) if options.quick else (SIZE, options.rounds)
    try:
        rows = run(size, rounds)
    except (OSError, RuntimeError) as error:
        sys.exit(f"python -m benchmarks.threading_mode: {error}")
    print(shown(rows))
    if options.json:
        where = surroundings(*PACKAGES, rounds=rounds, at_once=size.at_once, waits=size.waits, seconds=size.seconds)
        options.json.write_text(json.dumps({"where": where, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
