"""What TLS costs a server: `python -m benchmarks.tls`, on Linux (CPU times of other processes are from /proc).

Four works: `echo` (256 bytes on each of 100 connections, one message in flight), `handshakes` (full ones of TLS 1.3,
each on a connection of its own, 8 at a time), `sent` and `received` (64 KiB at a time through 4 connections). The
servers of Dhaga, gevent and threads have the same code with different modules. Server and load have a process and a CPU
each. The load is written in Python and may be slower than the server, so the figure is the server's work per second of
the server's CPU time. The rivals take turns within each round, and the median of the ratios within a round counts.
"""

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import trustme

from benchmarks.machine import cpu_in, cpus, stat_of, surroundings

ROUNDS, SECONDS = 7, 1.0
SIZE, CONNECTIONS = 256, 100
SHAKERS, STREAMS = 8, 4
BLOCK = bytes(1 << 16)
MEGABYTE = 1e6
PAUSE, PATIENCE = 0.02, 60.0  # seconds between two readings of a server, and maximum seconds of a measurement
NAME = "localhost"
RIVALS = {
    "dhaga": ("dhaga.socket", "dhaga.ssl", "dhaga"),
    "gevent": ("gevent.socket", "gevent.ssl", "gevent"),
    "threads": ("socket", "ssl", "threading"),
    "asyncio": (),
}
TARGETS = {"echo": 1.2, "handshakes": 1.0, "sent": 1.0, "received": 1.0}
"""The targets: how many times as much as gevent's server Dhaga's server does in the same CPU time."""

UNITS = {"echo": "messages", "handshakes": "handshakes", "sent": "MB", "received": "MB"}


# ---- servers


def _echo(connection: Any) -> None:
    while data := connection.recv(4096):
        connection.sendall(data)


def _send(connection: Any) -> None:
    while True:
        connection.sendall(BLOCK)


def _receive(connection: Any) -> None:
    while connection.recv(len(BLOCK)):
        pass


WORKS: dict[str, Callable[[Any], None]] = {"echo": _echo, "handshakes": _receive, "sent": _send, "received": _receive}


def _spawner(name: str) -> Callable[..., object]:
    module = importlib.import_module(name)
    if name != "threading":
        return module.spawn  # type: ignore[no-any-return]
    return lambda fn, *args: threading.Thread(target=fn, args=args, daemon=True).start()


def _serve_by_calls(rival: str, work: str, certificate: str) -> None:
    """Serve each connection in a dhaga, greenlet or thread."""
    sockets, tls, spawns = RIVALS[rival]
    context = importlib.import_module(tls).SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    spawn = _spawner(spawns)
    plain = importlib.import_module(sockets)
    listener = plain.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)

    def serve(accepted: Any) -> None:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), context.wrap_socket(accepted, server_side=True) as connection:
            WORKS[work](connection)

    print(listener.getsockname()[1], flush=True)
    while True:
        spawn(serve, listener.accept()[0])


async def _serve_by_streams(work: str, certificate: str) -> None:
    """Serve each connection in a task, with asyncio's streams."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if work == "sent":
                while True:
                    writer.write(BLOCK)
                    await writer.drain()
            while data := await reader.read(4096 if work == "echo" else len(BLOCK)):
                if work == "echo":
                    writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _serve(rival: str, work: str, certificate: str) -> None:
    if rival == "asyncio":
        asyncio.run(_serve_by_streams(work, certificate))
    else:
        _serve_by_calls(rival, work, certificate)


# ---- the load


class Load:
    """The load of one server: clients with the standard ``ssl``. ``done`` counts messages, handshakes or megabytes."""

    def __init__(self, work: str, port: int, context: ssl.SSLContext) -> None:
        self.work = work
        self.port = port
        self.context = context
        self.done = 0.0

    def connect(self) -> ssl.SSLSocket:
        sock = socket.create_connection(("127.0.0.1", self.port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(sock, server_hostname=NAME)

    def start(self) -> None:
        """Connect, and start threads that load the server until the process ends."""
        if self.work == "echo":
            self.spawn(self.echo, [self.connect() for _ in range(CONNECTIONS)])
        elif self.work == "handshakes":
            for _ in range(SHAKERS):
                self.spawn(self.shake)
        else:
            for _ in range(STREAMS):
                self.spawn(self.receive if self.work == "sent" else self.send, self.connect())

    def spawn(self, fn: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=fn, args=args, daemon=True).start()

    def echo(self, connections: list[ssl.SSLSocket]) -> None:
        message = os.urandom(SIZE)
        selector = selectors.DefaultSelector()
        for connection in connections:
            connection.sendall(message)
            assert connection.recv(SIZE) == message
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_READ, connection)
            connection.send(message)
        while True:
            for key, _ in selector.select():
                with contextlib.suppress(ssl.SSLWantReadError):
                    assert len(key.data.recv(SIZE)) == SIZE
                    self.done += 1
                    key.data.send(message)

    def shake(self) -> None:
        while True:
            with self.connect() as connection:
                assert not connection.session_reused
            self.done += 1

    def receive(self, connection: ssl.SSLSocket) -> None:
        buffer = bytearray(len(BLOCK))
        while got := connection.recv_into(buffer):
            self.done += got / MEGABYTE

    def send(self, connection: ssl.SSLSocket) -> None:
        while True:
            connection.sendall(BLOCK)
            self.done += len(BLOCK) / MEGABYTE


def _load(work: str, port: int, authority: str) -> None:
    """Load a server until killed. After each line of input, print how much was done so far."""
    load = Load(work, port, ssl.create_default_context(cafile=authority))
    load.start()
    for _ in sys.stdin:
        print(load.done, flush=True)


# ---- measuring


@contextlib.contextmanager
def _child(which: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run this module in a process on the first or the second CPU, where there are two."""
    pinned = cpus()
    place = ["taskset", "--cpu-list", str(pinned[which])] if pinned else []
    command = [*place, sys.executable, "-m", "benchmarks.tls", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} broke off")
    return line


def _state(load: subprocess.Popen[str], server: subprocess.Popen[str]) -> tuple[float, float, float]:
    """Return the amount of work done so far, the server's CPU seconds so far, and the time."""
    assert load.stdin is not None
    load.stdin.write("\n")
    load.stdin.flush()
    stat = stat_of(server.pid)
    return float(_line(load)), cpu_in(stat), perf_counter()


def _later(load: Any, server: Any, before: tuple[float, float, float], seconds: float) -> tuple[float, float, float]:
    """Return the state once more work was done, and the server has used ``seconds`` CPU seconds since ``before``."""
    for _ in range(int(PATIENCE / PAUSE)):
        state = _state(load, server)
        if state[0] > before[0] and state[1] >= before[1] + seconds:
            return state
        sleep(PAUSE)
    raise RuntimeError(f"after {PATIENCE:g} s {server.args!r} has done {state[0] - before[0]:g}")


def _measure(rival: str, work: str, seconds: float, certificate: str, authority: str) -> dict[str, float]:
    """Load one server. Returns: its work per second, and per second of its CPU time."""
    with (
        _child(0, "serve", rival, work, certificate) as server,
        _child(1, "load", work, _line(server).strip(), authority) as load,
    ):
        warm = _later(load, server, (0, 0, 0), seconds / 3)
        done, cpu, began = _later(load, server, warm, 0)
        done_then, cpu_then, ended = _later(load, server, (done, cpu, began), seconds)
        server.kill()  # kill the server first, so that it does not report the end of the load
    done = done_then - done
    return {"each second": done / (ended - began), "each CPU second": done / (cpu_then - cpu)}


def _samples(works: list[str], rounds: int, seconds: float) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Measure in turn. Returns: for each work and rival, one sample per round."""
    authority = trustme.CA()
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    rivals = [rival for rival in RIVALS if rival != "gevent" or find_spec("gevent")]
    with (
        authority.cert_pem.tempfile() as trusted,
        authority.issue_cert(NAME).private_key_and_cert_chain_pem.tempfile() as certificate,
    ):
        for work, _, rival in product(works, range(rounds), rivals):
            sample = _measure(rival, work, seconds, certificate, trusted)
            found.setdefault(work, {}).setdefault(rival, []).append(sample)
    return found


def _ratio(rivals: dict[str, list[dict[str, float]]], other: str, key: str) -> float:
    """Return the median over the rounds of Dhaga's figure divided by another's."""
    pairs = zip(rivals["dhaga"], rivals[other], strict=True)
    return statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)


def _report(samples: dict[str, dict[str, list[dict[str, float]]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Print the medians. Returns: the ratios by work, rival and kind."""
    ratios: dict[str, dict[str, dict[str, float]]] = {}
    for work, rivals in samples.items():
        for rival, each in rivals.items():
            rates = {key: statistics.median(sample[key] for sample in each) for key in each[0]}
            ratio = ratios.setdefault(work, {})[rival] = {key: _ratio(rivals, rival, key) for key in rates}
            text = ", ".join(f"{rates[key]:9,.0f} {key} (dhaga {ratio[key]:.2f}x)" for key in rates)
            print(f"{work:10} {rival:8} {text} {UNITS[work]}", flush=True)
    return ratios


def _main() -> None:
    """Measure, print, and write the samples where `--json` says; exit status 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tls")
    parser.add_argument("works", nargs="*", metavar="WORK", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help=f"rounds ({ROUNDS})")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"CPU seconds of a server ({SECONDS:g})"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args()
    samples = _samples(options.works, options.rounds, options.seconds)
    ratios = _report(samples)
    if options.json:
        where = surroundings(rounds=options.rounds, load=options.seconds) | {"openssl": ssl.OPENSSL_VERSION}
        results = {"where": where, "samples": samples, "ratios": ratios, "targets": TARGETS}
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    missed = [
        work
        for work, others in ratios.items()
        if "gevent" in others and round(others["gevent"]["each CPU second"], 2) < TARGETS[work]
    ]
    print(f"targets: {'missed by ' + ', '.join(missed) if missed else 'reached'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(*sys.argv[2:])
    elif sys.argv[1:2] == ["load"]:
        _load(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        _main()
