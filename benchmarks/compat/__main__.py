"""Programs in gevent's own style: `python -m benchmarks.compat`.

Each runs on gevent and, unchanged, on Dhaga under gevent's name, each time in a process of its own, the two in turn:
operations per second of CPU that the process takes, of several rounds the median. Target: 1.3 times gevent's rate.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.machine import surroundings

RIVALS = ("dhaga", "gevent")
PROGRAMS = (
    "spawn_and_join",
    "pool_map",
    "imap_unordered",
    "switches",
    "queues",
    "results",
    "broadcasts",
    "semaphores",
    "stream_server",
    "wsgi_server",
)
TARGET = 1.3
SCALE = 200
WARM_UP = 2
PATIENCE = 300.0


def measure(rival: str, program: str, scale: int) -> float | None:
    """Measure in a process of its own. Returns: operations per CPU second; None if it has failed."""
    command = [sys.executable, "-m", "benchmarks.compat", "--measure", json.dumps([rival, program, scale])]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    return float(done.stdout) if done.returncode == 0 else None


def in_this_process(rival: str, program: str, scale: int) -> None:
    """Run a program here, once before it counts, and print its rate."""
    run = importlib.import_module(f"benchmarks.compat.on_{rival}").PROGRAMS[program]
    run(WARM_UP)
    began = time.process_time()
    operations = run(scale)
    print(operations / (time.process_time() - began))


def run(programs: list[str], scale: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the rates of each program, and how many times gevent's ours is."""
    found: dict[str, dict[str, float]] = {}
    for program in programs:
        samples: dict[str, list[float]] = {rival: [] for rival in RIVALS}
        for _ in range(rounds):
            for rival in RIVALS:
                rate = measure(rival, program, scale)
                if rate is not None:
                    samples[rival].append(rate)
        rates = {rival: statistics.median(each) if each else math.nan for rival, each in samples.items()}
        found[program] = {**rates, "times": rates["dhaga"] / rates["gevent"]}
        print(f"{program:20}", *(f"{rate:12,.0f}" for rate in rates.values()), f"{found[program]['times']:8.2f}")
    return found


def missed(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return the programs whose rate is below the target."""
    return [program for program, rates in found.items() if not rates["times"] >= TARGET]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compat", description=__doc__)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=PROGRAMS)
    parser.add_argument("--scale", type=int, default=SCALE, help="how much of each is done")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        in_this_process(*options.measure)
        return 0
    if find_spec("gevent") is None:
        parser.error("gevent is not installed here: make bench installs it")
    print(f"{'a CPU second':20}", *(f"{rival:>12}" for rival in RIVALS), "   times")
    found = run(options.programs, options.scale, options.rounds)
    late = missed(found)
    print(f"below {TARGET} times gevent's rate: {', '.join(late)}" if late else f"all at {TARGET} times or above")
    if options.json:
        where = surroundings(rounds=options.rounds, scale=options.scale)
        options.json.write_text(json.dumps({"where": where, "programs": found, "missed": late}, indent=1) + "\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
