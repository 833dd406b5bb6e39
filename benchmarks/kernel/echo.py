"""The echo rows: a server in one process, the load in another, each on its own CPU if there are two.

The load is `load.c`, compiled into build/. If it cannot be compiled, the load is several processes of `load.py`, and
the report states this.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from benchmarks.machine import compiled, compiler, cpu_seconds, cpus

HERE = Path(__file__).parent
LOAD_PROCESSES = 3  # of load.py, because one process is slower than any server
PATIENCE = 30.0  # seconds to connect, and seconds for all that follows the load

Result = dict[str, float]


def load_name() -> str:
    """Return the name of the load program."""
    return "load.c" if compiler() else f"{LOAD_PROCESSES} processes of load.py"


def load_command() -> list[str]:
    """Return the command that starts the load."""
    program = compiled(HERE / "load.c")
    return [sys.executable, "-m", "benchmarks.kernel.load"] if program is None else [str(program)]


def _kill(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()


@contextmanager
def _killed_in_the_end(processes: list[subprocess.Popen[str]], seconds: float) -> Iterator[None]:
    """Kill the processes at the end of the block, or after ``seconds`` seconds, which ends a hanging `_line`."""
    watchdog = threading.Timer(seconds, _kill, [processes])
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()
        _kill(processes)
        for process in processes:
            process.communicate()


@contextmanager
def _server(command: list[str], seconds: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start the server, and kill it at the end of the block. Raises: RuntimeError with its last output if it fails."""
    pinned = cpus()
    command = [*command, "--serve", *(["--cpu", str(pinned[0])] if pinned else [])]
    with (
        tempfile.TemporaryFile("w+") as words,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True) as server,
        _killed_in_the_end([server], seconds),
    ):
        try:
            yield server, json.loads(_line(server))["port"]
        except RuntimeError as error:
            words.seek(0)
            raise RuntimeError(words.read().strip().rpartition("\n")[2] or str(error)) from error


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("it broke off")
    return line


def _start_loads(port: int, connections: int, size: int, seconds: float) -> list[subprocess.Popen[str]]:
    command = load_command()
    processes = 1 if compiler() else LOAD_PROCESSES
    pinned = cpus()
    loads = []
    for number in range(processes):
        share = connections // processes + (number < connections % processes)
        arguments = [*command, str(port), str(share), str(size), str(seconds / 3), str(seconds)]
        loads.append(subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True))
        if pinned:
            os.sched_setaffinity(loads[-1].pid, {pinned[1]})
    return loads


def _added(results: list[dict[str, float]]) -> Result:
    """Combine the results of several load processes: sum the rates and CPU shares, and take the worst latencies."""
    total = {key: max(result[key] for result in results) for key in results[0]}
    for key in ("rate", "cpu"):
        total[key] = sum(result[key] for result in results)
    return total


def measure(command: list[str], connections: int, size: int, seconds: float) -> Result:
    """Load one server.

    Returns: rate, latencies in µs, and the CPU shares of the load (`cpu`) and of the server (`server_cpu`).
    """
    patience = PATIENCE + 2 * seconds
    with _server(command, patience) as (server, port):
        loads = _start_loads(port, connections, size, seconds)
        with _killed_in_the_end(loads, patience):
            for load in loads:
                _line(load)
            started, cpu = perf_counter(), cpu_seconds(server.pid)
            result = _added([json.loads(_line(load)) for load in loads])
            after, elapsed = cpu_seconds(server.pid), perf_counter() - started
            for load in loads:
                load.wait()
    if cpu is not None and after is not None:
        result["server_cpu"] = (after - cpu) / elapsed
    return result
