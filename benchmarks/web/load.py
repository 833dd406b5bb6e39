"""The load of `benchmarks.web`: wrk, and a process that holds idle connections, each with a long poll.

`python -m benchmarks.web.load PORT COUNT` is this process. It prints the number of polls sent, and runs until killed.
"""

import contextlib
import math
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from benchmarks.machine import raise_file_limit
from benchmarks.web.servers import Server

POLL = b"GET /poll HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PATIENCE = 60.0  # maximum seconds until all polls have reached the app
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6, "m": 6e7}


Load = dict[str, float]
"""The figures of wrk: requests, requests per second, latencies in µs and errors; and the server's CPU time per request
in µs, and the fractions of a CPU that the server and wrk have used.
"""

TICK = 1 / os.sysconf("SC_CLK_TCK")
"""The unit in seconds in which the system counts CPU time."""


def wrk(server: Server, connections: int, seconds: float, cpu: int, path: str = "") -> Load:
    """Load a server from another CPU, on kept connections. Raises: RuntimeError if nothing was answered."""
    command = ["taskset", "--cpu-list", str(cpu), "wrk", "-t1", f"-c{connections}", "--latency", server.url + path]
    before, before_wrk, began = server.cpu(), children_cpu(), monotonic()
    text = report(command, seconds)
    elapsed = monotonic() - began
    spent = max(server.cpu() - before, TICK)
    counted = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    if counted is None or rate is None or not int(counted[1]):
        raise RuntimeError(f"wrk had no answer: {text.strip()}")
    return {
        "requests": int(counted[1]),
        "rate": float(rate[1]),
        "p50": latency(text, 50),
        "p99": latency(text, 99),
        "cpu": spent / int(counted[1]) * 1e6,
        "share": spent / elapsed,
        "wrk": (children_cpu() - before_wrk) / elapsed,
        "errors": errors(text),
    }


def report(command: list[str], seconds: float) -> str:
    """Run wrk for ``seconds``, and return its report. wrk accepts only whole seconds; an interrupt ends it earlier."""
    command = [*command, f"-d{math.ceil(seconds)}s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            if seconds % 1:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.communicate(timeout=seconds)[0]
                process.send_signal(signal.SIGINT)
            return process.communicate()[0]
        finally:
            process.kill()


def children_cpu() -> float:
    """Return the CPU time of the child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def latency(text: str, percent: int) -> float:
    """Return one of the latencies that wrk prints, in µs."""
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s|m)", text)
    return float(found[1]) * UNITS[found[2]] if found else float("nan")


def errors(text: str) -> int:
    """Return the number of failed requests, from the output of wrk."""
    return sum(map(int, re.findall(r"(?:connect|read|write|timeout|responses:?) (\d+)", text)))


@contextmanager
def polls(server: Server, count: int, cpu: int) -> Iterator[None]:
    """Hold ``count`` connections whose request waits in the app. Raises: RuntimeError if not all requests get there."""
    command = ["taskset", "--cpu-list", str(cpu), sys.executable, "-m", "benchmarks.web.load"]
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
