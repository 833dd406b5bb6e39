"""The measurement: one OS thread, several threads and several processes do each work or serve each site in turn.

A sample has rate (operations per second), cpu (µs per operation) and cores (CPU seconds per second). A sample of a site
also has memory (MB) and p99 (ms).
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cores.services import SITES, Python, serve
from benchmarks.cores.works import WORKS
from benchmarks.samples import Results, Sample
from benchmarks.service import database

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 60


@dataclass(frozen=True)
class Way:
    """A way to use the cores. ``free``: on a free-threaded Python. ``threads``, ``processes``: with several of them."""

    free: bool
    threads: bool = False
    processes: bool = False

    def shape(self, number: int) -> tuple[int, int]:
        """Return how many OS threads each process has, and how many processes there are."""
        return number if self.threads else 1, number if self.processes else 1


WAYS = {
    "lock, 1 thread": Way(False),
    "lock, N threads": Way(False, threads=True),
    "free, 1 thread": Way(True),
    "free, N threads": Way(True, threads=True),
    "free, N processes": Way(True, processes=True),
}
LOCKED, LOCKED_THREADS, ONE, THREADS, PROCESSES = WAYS


def work(name: str, python: Python, threads: int, processes: int, seconds: float) -> Sample:
    """Run a work in ``processes`` processes at the same time, each with ``threads`` OS threads."""
    command = [python.path, "-m", "benchmarks.cores.child", name, str(threads), str(seconds)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) for _ in range(processes)]
    outputs = [process.communicate(timeout=PATIENCE)[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"{name} ended with status {max(process.returncode for process in started)}")
    figures = [json.loads(output) for output in outputs]
    operations = sum(each["operations"] for each in figures)
    return {
        "rate": sum(each["operations"] / each["seconds"] for each in figures),
        "cpu": sum(each["cpu"] for each in figures) / operations * 1e6,
        "cores": sum(each["cpu"] / each["seconds"] for each in figures),
    }


def measurement(row: str, python: Python, threads: int, processes: int, seconds: float) -> Sample:
    """Measure one row in one way."""
    if row in WORKS:
        return work(row, python, threads, processes, seconds)
    return serve(SITES[row], python, threads, processes, seconds)


def run(
    rows: Iterable[str],
    pythons: tuple[Python, Python],
    number: int,
    rounds: int,
    seconds: float,
    where: dict[str, Any],
    keep: Callable[[Results], None],
) -> Results:
    """Measure the ways in turn within each round. ``pythons``: a Python with the lock, and a free-threaded Python."""
    results = Results(where)
    for row in rows:
        if row in SITES and SITES[row].databases:
            database.fill()
        for each in range(1, rounds + 1):
            print(f"{row}, round {each} of {rounds}", file=sys.stderr, flush=True)
            for name, way in WAYS.items():
                try:
                    sample = measurement(row, pythons[way.free], *way.shape(number), seconds)
                    results.samples.setdefault(row, {}).setdefault(name, []).append(sample)
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    results.failures.setdefault(row, {})[name] = f"{type(error).__name__}: {error}"
        keep(results)
    return results
