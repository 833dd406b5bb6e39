"""Plain threaded programs under Dhaga's patch, compared with others: `python -m benchmarks.swap`.

- echo: the threaded server of `on_threads.py`, patched, and the server of `on_dhaga.py`, written with Dhaga's own
  names. The difference is the cost of the patch. The load is the same as in the echo rows.
- calls: 1,000 `threading.Thread`s call an HTTP server in another process, each over a kept connection. They use
  `http.client`, whose work is the same under each patch (32 µs of CPU per call, without waits and without the kernel),
  or bare sockets, which do almost no other work.

The rivals take turns within each round, each sample in a new process. The targets apply to the median of the ratios
within a round, of work per second of the process's CPU time. Work per second of wall-clock time is also shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kernel import echo
from benchmarks.machine import cpus

ROUNDS = 5
SECONDS = 2.0  # of the echo load
MESSAGE = 256  # bytes of an echo message
THREADS = 1000
CALLS = 40  # per thread
PATIENCE = 120.0
SERVER = """
import asyncio, os, sys
if len(sys.argv) > 1:
    os.sched_setaffinity(0, {int(sys.argv[1])})
PAGE = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 100\\r\\n\\r\\n" + bytes(100)
class Page(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):  # one request at a time: its caller waits for the answer
        self.transport.write(PAGE)
async def main():
    server = await asyncio.get_running_loop().create_server(Page, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
try:
    import uvloop
except ImportError:
    uvloop = asyncio
uvloop.run(main())
"""

Sample = dict[str, float]
"""Work per second of wall-clock time, and per second of CPU time."""


class Work(NamedTuple):
    """A measured work. The target is a bound on the patched program's work per CPU second, divided by ``than``'s."""

    kind: str
    rivals: tuple[str, ...]
    target: float
    than: str
    words: str
    connections: int = THREADS


WORKS = {
    "echo-100": Work("echo", ("patched", "native", "gevent"), 0.9, "native", "echo, 100 connections", 100),
    "echo-1000": Work("echo", ("patched", "native", "gevent"), 0.9, "native", "echo, 1,000 connections", 1000),
    "calls-sockets": Work("sockets", ("patched", "gevent", "threads"), 1.5, "gevent", "1,000 threads, by sockets"),
    "calls-http.client": Work(
        "http_client", ("patched", "gevent", "threads"), 1.5, "gevent", "the same by http.client"
    ),
}


# ---- functions that run in new processes


def _patch(rival: str) -> None:
    """Patch this process for the rival. Call this before other imports."""
    if rival == "patched":
        from dhaga import monkey

        monkey.patch()
    elif rival == "gevent":
        import gevent.monkey

        gevent.monkey.patch_all()


def _ready(port: int) -> None:
    print(json.dumps({"port": port}), flush=True)


def _serve(rival: str, *options: str) -> None:
    """Run the echo server."""
    if "--cpu" in options:
        os.sched_setaffinity(0, {int(options[-1])})
    _patch(rival)
    if rival == "native":
        from benchmarks.kernel import on_dhaga

        on_dhaga.echo(_ready)
    else:
        from benchmarks.kernel import on_threads

        on_threads.echo(_ready)


def _by_http_client(port: int, gate: Callable[[], object]) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.connect()
    gate()
    for _ in range(CALLS):
        connection.request("GET", "/")
        if len(connection.getresponse().read()) != 100:
            raise RuntimeError("that is not the page")
    connection.close()


def _by_sockets(port: int, gate: Callable[[], object]) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gate()
        for _ in range(CALLS):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: identity\r\n\r\n")
            page = connection.recv(4096)
            if not page.endswith(bytes(100)):
                raise RuntimeError("that is not the page")


def _call(rival: str, kind: str, port: str) -> None:
    """Let 1,000 threads make their calls once all are connected, and print the time of the calls."""
    _patch(rival)
    import threading

    call: Callable[[int, Callable[[], object]], None] = {"http_client": _by_http_client, "sockets": _by_sockets}[kind]
    done: list[int] = []
    began: list[float] = []
    gate = threading.Barrier(THREADS, lambda: began.extend((time.perf_counter(), time.process_time())))

    def work() -> None:
        call(int(port), gate.wait)
        done.append(CALLS)

    call(int(port), list)  # imports and specialization are not part of the time
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    if len(done) != THREADS:
        raise RuntimeError(f"{THREADS - len(done)} threads have failed")
    print(json.dumps({"each second": sum(done) / seconds, "each CPU second": sum(done) / cpu}), flush=True)


# ---- measuring


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.swap", *arguments]


def _echo(rival: str, work: Work, seconds: float) -> Sample:
    load = echo.measure(_command("serve", rival), work.connections, MESSAGE, seconds)
    return {"each second": load["rate"], "each CPU second": load["rate"] / load.get("server_cpu", 1.0)}


@contextmanager
def _serving() -> Iterator[str]:
    """Run the HTTP server on the second CPU. Returns: its port."""
    pinned = cpus()
    command = [sys.executable, "-c", SERVER, *([str(pinned[1])] if pinned else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _calls(rival: str, work: Work) -> Sample:
    pinned = cpus()
    place = ["taskset", "--cpu-list", str(pinned[0])] if pinned else []
    with _serving() as port:
        command = [*place, *_command("call", rival, work.kind, port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stderr)
    sample: Sample = json.loads(done.stdout)
    return sample


def _samples(works: list[str], rounds: int, seconds: float) -> dict[str, dict[str, list[Sample]]]:
    """Measure in turn. Returns: for each work and rival, one sample per round."""
    found: dict[str, dict[str, list[Sample]]] = {}
    for name in works:
        work = WORKS[name]
        rivals = [rival for rival in work.rivals if rival != "gevent" or find_spec("gevent")]
        for _ in range(rounds):
            for rival in rivals:
                sample = _echo(rival, work, seconds) if work.kind == "echo" else _calls(rival, work)
                found.setdefault(name, {}).setdefault(rival, []).append(sample)
        _print(name, found[name])
    return found


def _ratio(rivals: dict[str, list[Sample]], other: str, key: str) -> float:
    """Return the median over the rounds of the patched program's figure divided by another's."""
    pairs = zip(rivals["patched"], rivals[other], strict=True)
    return statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)


def _print(name: str, rivals: dict[str, list[Sample]]) -> None:
    for rival, samples in rivals.items():
        medians = {key: statistics.median(sample[key] for sample in samples) for key in samples[0]}
        cells = (f"{medians[key]:9,.0f} {key} (patched {_ratio(rivals, rival, key):.2f}x)" for key in medians)
        print(f"{name:18} {rival:8} {', '.join(cells)}", flush=True)


def _markdown(results: dict[str, Any]) -> str:
    """Return the table of the ratios that have a target."""
    from benchmarks.markdown import table

    lines = []
    for name, (target, than) in results["targets"].items():
        rate, cpu = (results["ratios"][name][than][key] for key in ("each second", "each CPU second"))
        reached = "yes" if round(cpu, 2) >= target else "**no**"
        lines.append([name, WORKS[name].words, than, f"≥ {target:g}", f"{rate:.2f}", f"{cpu:.2f}", reached])
    return table(["work", "under the patch", "beside", "target", "by rate", "by CPU time", "reached"], lines)


def _main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if a target is missed."""
    from benchmarks.machine import raise_file_limit, surroundings

    parser = argparse.ArgumentParser(prog="python -m benchmarks.swap")
    parser.add_argument("works", nargs="*", metavar="WORK", default=list(WORKS), help=", ".join(WORKS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds ({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"of echo load ({SECONDS:g})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="measure nothing, print the table of such a file")
    options = parser.parse_args()
    if options.markdown:
        print(_markdown(json.loads(options.markdown.read_text())))
        return
    raise_file_limit()
    samples = _samples(options.works, options.rounds, options.seconds)
    ratios = {
        name: {other: {key: _ratio(rivals, other, key) for key in rivals[other][0]} for other in rivals}
        for name, rivals in samples.items()
    }
    targets = {name: (WORKS[name].target, WORKS[name].than) for name in samples}
    if options.json:
        where = surroundings(rounds=options.rounds, load=options.seconds)
        results: dict[str, Any] = {"where": where, "samples": samples, "ratios": ratios, "targets": targets}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    missed = [
        f"{name} ({ratios[name][than]['each CPU second']:.2f} of {target:g}x {than})"
        for name, (target, than) in targets.items()
        if than in ratios[name] and round(ratios[name][than]["each CPU second"], 2) < target
    ]
    print(f"targets: {'missed by ' + ', '.join(missed) if missed else 'reached'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(sys.argv[2], *(argument for argument in sys.argv[3:] if argument != "--serve"))
    elif sys.argv[1:2] == ["call"]:
        _call(*sys.argv[2:])
    else:
        _main()
