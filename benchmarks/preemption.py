"""The gain and the cost of preemption: `python -m benchmarks.preemption [NAME …]`, on Linux with two CPUs.

- `beside`: a thread computes for a second at a time, while 1,000 threads answer clients. How long do the clients wait?
- `views`: some views of a Flask service compute for 200 ms. How long do the light views take?
- `strikes`: how late does a deadline interrupt code that computes, while there are 1,000 connections?
- `loss`: how much more CPU time does a loop take in a preemptive patched program than in a cooperative one?

Each server is a new process on one CPU, its clients run on another CPU, and the rivals take turns within a round. The
clients of `beside` send at fixed times, even if answers are missing, so a blocked server delays all the requests that
become due meanwhile.
"""

import argparse
import asyncio
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import cpus, raise_file_limit, surroundings
from benchmarks.markdown import table

CLIENTS, EVERY = 1000, 0.002
"""Number of connections of `beside`, and seconds between two messages. Each message is sent on a random connection."""

COMPUTES, RESTS = 1.0, 0.05
"""Seconds that the computing thread computes, and seconds that it then sleeps."""

LIGHT, HEAVY, PAUSE = 20, 2, 0.01
"""Numbers of clients of `views` that request light and heavy views, and seconds between two light requests."""

HEAVY_SECONDS = 0.2

P99 = 20.0
"""The target: maximum milliseconds of the 99th percentile of answers in `beside`."""

LOSS = 2.0
"""The target: maximum percent of CPU time that preemption adds to a loop."""

ROUNDS, SECONDS = 3, 6.0
Figures = dict[str, float]


# ---- the programs that are measured


def compute(seconds: float) -> int:
    """Compute in Python for ``seconds`` seconds."""
    ends, total = time.perf_counter() + seconds, 0
    while time.perf_counter() < ends:
        for number in range(1000):
            total += number
    return total


def echo(sock: socket.socket) -> None:
    while data := sock.recv(64):
        sock.sendall(data)


def compute_for_ever() -> None:
    while True:
        compute(COMPUTES)
        time.sleep(RESTS)


def compute_until_struck(late: list[float]) -> None:
    """Compute under one deadline after another, and append the milliseconds by which each deadline was late."""
    import dhaga

    draw = random.Random(1).uniform
    while True:
        ends = time.monotonic() + (bound := draw(0.02, 0.06))
        try:
            with dhaga.Timeout(bound):
                compute(COMPUTES)
        except TimeoutError:
            late.append((time.monotonic() - ends) * 1000)
        time.sleep(RESTS)


def serve_strikes() -> None:
    """Answer each connection in a thread, while another thread computes under deadlines. At the end of the input, print
    how late the deadlines were.
    """
    late: list[float] = []
    serve_threads(lambda: compute_until_struck(late))
    print(*late)
    sys.stdout.flush()
    os._exit(0)


def serve_threads(work: Callable[[], None] = compute_for_ever) -> None:
    """Answer each connection in a thread, while another thread computes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)
    print(listener.getsockname()[1], flush=True)
    for count in range(CLIENTS):
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
        if count + 1 == CLIENTS:
            threading.Thread(target=work, daemon=True).start()
    sys.stdin.read()


async def serve_asyncio() -> None:
    """Answer each connection in a coroutine, while another coroutine computes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(64):
            writer.write(data)

    async def compute_now_and_then() -> None:
        await asyncio.sleep(1)
        while True:
            compute(COMPUTES)
            await asyncio.sleep(RESTS)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=CLIENTS)
    print(server.sockets[0].getsockname()[1], flush=True)
    await compute_now_and_then()


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answer at once; for the path /heavy, compute for 200 ms first."""
    if environ["PATH_INFO"] == "/heavy":
        compute(HEAVY_SECONDS)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def loop(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number % 7
    return total


def step(depth: int) -> int:
    return depth + step(depth - 1) if depth else 0


def calls(rounds: int) -> int:
    return sum(step(20) for _ in range(rounds))


def time_loops() -> None:
    """Print the CPU seconds of a loop and of many calls, without other threads and with 1,000 waiting threads."""
    waiting = threading.Event()
    times = []
    for _ in ("alone", "beside"):
        for work, rounds in ((loop, 12_000_000), (calls, 500_000)):
            worker = threading.Thread(target=work, args=(rounds,))
            began = time.process_time()
            worker.start()
            worker.join()
            times.append(time.process_time() - began)
        if len(times) == 2:
            for _ in range(CLIENTS):
                threading.Thread(target=waiting.wait, daemon=True).start()
            time.sleep(0.2)
    print(*times)


# ---- the load


def latencies(port: int, seconds: float) -> list[float]:
    """Send at fixed times on random connections. Returns: the milliseconds of each answer, including late answers."""
    choose, selector = random.Random(1), selectors.DefaultSelector()
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
    sent: dict[int, float] = {}
    found: list[float] = []
    for sock in socks:
        selector.register(sock, selectors.EVENT_READ)
    time.sleep(0.5)
    began = due = time.perf_counter()
    while due < began + seconds or (sent and time.perf_counter() < due + 3 * COMPUTES):
        if (now := time.perf_counter()) >= due and due < began + seconds:
            sock = choose.choice(socks)
            if sock.fileno() not in sent:
                sent[sock.fileno()] = due
                sock.send(b"x")
            due += EVERY
        for key, _ in selector.select(max(0.0, min(due - now, EVERY))):
            key.fileobj.recv(64)  # type: ignore[union-attr]
            found.append((time.perf_counter() - sent.pop(key.fd)) * 1000)
    return found + [(time.perf_counter() - at) * 1000 for at in sent.values()]


async def ask(port: int, path: str, pause: float, ends: float, found: list[float]) -> None:
    """Request a path again and again, on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (began := time.perf_counter()) < ends:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(2)
        assert b" 200 " in head.split(b"\r\n")[0], head
        found.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(pause)
    writer.close()


async def ask_for_views(port: int, seconds: float) -> tuple[list[float], list[float]]:
    light: list[float] = []
    heavy: list[float] = []
    ends = time.perf_counter() + seconds
    clients = [ask(port, "/light", PAUSE, ends, light) for _ in range(LIGHT)]
    await asyncio.gather(*clients, *(ask(port, "/heavy", 0, ends, heavy) for _ in range(HEAVY)))
    return light, heavy


def figures(found: list[float]) -> Figures:
    cuts = statistics.quantiles(found, n=100)
    return {"p50": cuts[49], "p99": cuts[98], "max": max(found), "answers": len(found)}


# ---- rivals

HERE = ("-m", "benchmarks.preemption")
GEVENT = (
    "from gevent import monkey; monkey.patch_all(); from benchmarks.preemption import serve_threads; serve_threads()"
)

BESIDE = {
    "dhaga": ("-m", "dhaga", *HERE, "--serve", "threads"),
    "dhaga, cooperative": ("-m", "dhaga", "--cooperative", *HERE, "--serve", "threads"),
    "threads": (*HERE, "--serve", "threads"),
    "gevent": ("-c", GEVENT),
    "asyncio": (*HERE, "--serve", "asyncio"),
}

STRIKES: dict[str, tuple[str, ...]] = {"dhaga": ("-m", "dhaga", *HERE, "--serve", "strikes")}

APP = "benchmarks.preemption:app"
GUNICORN = ("-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--log-level", "error", "--keep-alive", "60")
VIEWS = {
    "dhaga serve": ("-m", "dhaga", "serve", "--bind", "127.0.0.1:{port}", APP),
    "dhaga serve, cooperative": ("-m", "dhaga", "serve", "--cooperative", "--bind", "127.0.0.1:{port}", APP),
    "gunicorn gthread, 64 threads": (*GUNICORN, "-k", "gthread", "--threads", "64", APP),
    "gunicorn gevent": (*GUNICORN, "-k", "gevent", APP),
}


@contextmanager
def process(arguments: tuple[str, ...], cpu: int | None, **options: Any) -> Iterator[subprocess.Popen[str]]:
    pin = ("taskset", "-c", str(cpu)) if cpu is not None else ()
    started = subprocess.Popen([*pin, sys.executable, *arguments], text=True, stdin=subprocess.PIPE, **options)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def measure_beside(arguments: tuple[str, ...], cpu: int | None, seconds: float) -> Figures:
    with process(arguments, cpu, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        return figures(latencies(int(server.stdout.readline()), seconds))


def measure_strikes(arguments: tuple[str, ...], cpu: int | None, seconds: float) -> Figures:
    with process(arguments, cpu, stdout=subprocess.PIPE, env={**os.environ, "DHAGA_PREEMPT": "0.01"}) as server:
        assert server.stdout is not None
        latencies(int(server.stdout.readline()), seconds)
        return figures([float(each) for each in server.communicate()[0].split()])


def measure_views(arguments: tuple[str, ...], cpu: int | None, seconds: float) -> Figures:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with process(tuple(each.format(port=port) for each in arguments), cpu, stderr=subprocess.DEVNULL):
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        light, heavy = asyncio.run(ask_for_views(port, seconds))
        return {**figures(light), "heavy answers": len(heavy)}


LOOPS = {
    "preempted": ("-m", "dhaga", *HERE, "--loops"),
    "cooperative": ("-m", "dhaga", "--cooperative", *HERE, "--loops"),
}
LOOP_NAMES = "loop", "calls", "loop beside 1,000", "calls beside 1,000"


def measure_loss(arguments: tuple[str, ...], cpu: int | None, seconds: float) -> Figures:
    with process(arguments, cpu, stdout=subprocess.PIPE) as program:
        return dict(zip(LOOP_NAMES, map(float, program.communicate()[0].split()), strict=True))


EXPERIMENTS: dict[str, tuple[dict[str, tuple[str, ...]], Callable[..., Figures]]] = {
    "beside": (BESIDE, measure_beside),
    "views": (VIEWS, measure_views),
    "strikes": (STRIKES, measure_strikes),
    "loss": (LOOPS, measure_loss),
}


# ---- measuring and reporting

Samples = dict[str, dict[str, list[Figures]]]


def run(names: list[str], rounds: int, seconds: float) -> Samples:
    """Measure. Returns: the samples of each rival, by experiment."""
    pair = cpus()
    if pair is not None:
        os.sched_setaffinity(0, {pair[1]})
    samples: Samples = {name: {rival: [] for rival in EXPERIMENTS[name][0]} for name in names}
    for name in names:
        rivals, measure = EXPERIMENTS[name]
        for number in range(rounds):
            for rival, arguments in rivals.items():
                print(f"{name}: {rival}, round {number + 1} of {rounds}", file=sys.stderr)
                samples[name][rival].append(measure(arguments, pair and pair[0], seconds))
    return samples


def median(samples: list[Figures]) -> Figures:
    return {key: statistics.median(each[key] for each in samples) for key in samples[0]}


def report(samples: Samples) -> str:
    """Return the tables as Markdown, each after its targets."""
    parts = []
    for name, rivals in samples.items():
        if name == "loss":
            parts.append(
                f"CPU time that preemption costs, at most {LOSS:g} %:\n\n{table(('work', 'cost'), losses(rivals))}"
            )
            continue
        columns = list(next(iter(rivals.values()))[0])
        lines = [[rival, *(f"{median(each)[key]:,.1f}" for key in columns)] for rival, each in rivals.items()]
        target = f"p99 at most {P99:g} ms" if name in ("beside", "strikes") else "p99 at most that of gthread"
        parts.append(f"`{name}`, in ms ({target}):\n\n{table(('program', *columns), lines)}")
    return "\n\n".join(parts)


WAITS = "work", "program", "p50 ms", "p99 ms", "max ms"


def waits(results: dict[str, Any]) -> list[list[str]]:
    """Return the lines of a table of `beside` or `views`."""
    return [
        [what, rival, *(f"{median(samples)[key]:,.1f}" for key in ("p50", "p99", "max"))]
        for name, what in (("beside", "1,000 connections"), ("views", "light views"))
        for rival, samples in results["samples"][name].items()
    ]


def summary(results: dict[str, Any]) -> str:
    """Return the table of waits, and a description of the machine."""
    where = results["where"]
    return f"{table(WAITS, waits(results))}\n\n{where['python']}, {where['processor']}."


def losses(rivals: dict[str, list[Figures]]) -> list[tuple[str, str]]:
    """Return for each work the CPU time that preemption adds: the median of the ratios within a round."""
    pairs = list(zip(rivals["preempted"], rivals["cooperative"], strict=True))
    return [
        (name, f"{statistics.median((with_it[name] / without[name] - 1) * 100 for with_it, without in pairs):+.1f} %")
        for name in LOOP_NAMES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemption", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"({ROUNDS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"under load ({SECONDS:g})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--serve", choices=("threads", "asyncio", "strikes"), help=argparse.SUPPRESS)
    parser.add_argument("--loops", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    raise_file_limit()
    if options.loops:
        time_loops()
    elif options.serve == "threads":
        serve_threads()
    elif options.serve == "strikes":
        serve_strikes()
    elif options.serve:
        asyncio.run(serve_asyncio())
    else:
        if unknown := [name for name in options.names if name not in EXPERIMENTS]:
            parser.error(f"there is no {unknown[0]}; there are {', '.join(EXPERIMENTS)}")
        samples = run(options.names or list(EXPERIMENTS), options.rounds, options.seconds)
        print(report(samples))
        if options.json:
            where = surroundings("gevent", "gunicorn", rounds=options.rounds, seconds=options.seconds)
            options.json.write_text(json.dumps({"where": where, "samples": samples}, indent=1) + "\n")


if __name__ == "__main__":
    main()
