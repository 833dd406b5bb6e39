"""The load of `benchmarks.web`: wrk, and a process that holds idle connections, each with a long poll.

`python -m benchmarks.webload PORT COUNT` is that process; it prints how many have been sent, then waits to be killed.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from benchmarks.runner import raise_file_limit
from benchmarks.webservers import Server

POLL = b"GET /poll HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PATIENCE = 60.0  # seconds until all polls have come to the app
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7}


Load = dict[str, float]
"""What wrk saw, and what it cost the server: requests a second, latencies and CPU a request in µs, errors."""

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""Seconds; the system counts CPU time in these."""


def wrk(server: Server, connections: int, seconds: int, cpu: int) -> Load:
    """Load a server from another CPU, on connections that are kept. Raises: RuntimeError if nothing was answered."""
    command = ["taskset", "--cpu-list", str(cpu), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    before = server.cpu()
    done = subprocess.run([*command, server.url], capture_output=True, text=True, check=True)
    spent = max(server.cpu() - before, TICK)
    counted = re.search(r"(\d+) requests in", done.stdout)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    if counted is None or rate is None or not int(counted[1]):
        raise RuntimeError(f"wrk had no answer: {done.stdout.strip()}")
    return {
        "rate": float(rate[1]),
        "p50": latency(done.stdout, 50),
        "p99": latency(done.stdout, 99),
        "cpu": spent / int(counted[1]) * 1e6,
        "errors": errors(done.stdout),
    }


def latency(text: str, percent: int) -> float:
    """Return one of the latencies that wrk prints, in µs."""
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s|m)", text)
    return float(found[1]) * UNITS[found[2]] if found else float("nan")


def errors(text: str) -> int:
    """Return how many requests failed, by what wrk prints of them."""
    return sum(map(int, re.findall(r"(?:connect|read|write|timeout|responses:?) (\d+)", text)))


@contextmanager
def polls(server: Server, count: int, cpu: int) -> Iterator[None]:
    """Hold so many connections whose request waits in the app. Raises: RuntimeError if not all come that far."""
    command = ["taskset", "--cpu-list", str(cpu), sys.executable, "-m", "benchmarks.webload"]
    with subprocess.Popen([*command, str(server.port), str(count)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != str(count):
                raise RuntimeError("the idle connections broke off")
            deadline = monotonic() + PATIENCE
            while (waiting := int(server.ask("waiting"))) < count:
                if monotonic() > deadline:
                    raise RuntimeError(f"{waiting} of {count} polls have come to the app")
                sleep(0.2)
            yield
        finally:
            process.kill()


def main() -> None:
    """Open the connections, send the polls, and hold them."""
    port, count = map(int, sys.argv[1:])
    raise_file_limit()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            sock.sendall(POLL)
        print(count, flush=True)
        sleep(3600)


if __name__ == "__main__":
    main()
