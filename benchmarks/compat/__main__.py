"""Programs in gevent's and eventlet's own style: `python -m benchmarks.compat [gevent | eventlet]`.

Each program runs on the package and, unchanged, on Dhaga under the package's name. The two take turns, each time in a
new process. The figures are operations per second of the process's CPU time, the median of several rounds. Targets: 1.3
times gevent's rate, twice eventlet's rate.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.machine import surroundings

TARGETS = {"gevent": 1.3, "eventlet": 2.0}
PROGRAMS = {
    "gevent": (
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
    ),
    "eventlet": (
        "spawn_and_wait",
        "spawn_n",
        "pool_spawn",
        "imap",
        "switches",
        "sleeps",
        "queues",
        "channels",
        "events",
        "semaphores",
        "echo_server",
        "wsgi_server",
    ),
}
SCALE = 200
WARM_UP = 2
PATIENCE = 300.0


def measure(rival: str, package: str, program: str, scale: int) -> float | None:
    """Measure in a new process. Returns: operations per CPU second; None if the process has failed."""
    arguments = json.dumps([rival, package, program, scale])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.compat", "--measure", arguments]
    # Eventlet's name resolution is not measured, and breaks beside some versions of dnspython.
    environ = {**os.environ, "EVENTLET_NO_GREENDNS": "yes"}
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, env=environ)
    return float(done.stdout) if done.returncode == 0 else None


def in_this_process(rival: str, package: str, program: str, scale: int) -> None:
    """Run a program in this process, first to warm up and then to measure, and print its rate."""
    if rival == "dhaga":
        # Import Dhaga only for Dhaga: the frame chunks that Dhaga keeps would speed up a rival's greenlets, too.
        from dhaga import compat

        compat.install(package)  # its `import gevent` finds dhaga.compat.gevent
    run = importlib.import_module(f"benchmarks.compat.{package}_programs").PROGRAMS[program]
    run(WARM_UP)
    began = time.process_time()
    operations = run(scale)
    print(operations / (time.process_time() - began))


def run(package: str, programs: Sequence[str], scale: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return each program's rates on the package and on Dhaga, and Dhaga's rate divided by the package's."""
    found: dict[str, dict[str, float]] = {}
    print(f"{'a CPU second':20}", *(f"{rival:>12}" for rival in ("dhaga", package)), "   times")
    for program in programs:
        samples: dict[str, list[float]] = {"dhaga": [], package: []}
        for _ in range(rounds):
            for rival, each in samples.items():
                rate = measure(rival, package, program, scale)
                if rate is not None:
                    each.append(rate)
        rates = {rival: statistics.median(each) if each else math.nan for rival, each in samples.items()}
        found[program] = {**rates, "times": rates["dhaga"] / rates[package]}
        print(f"{program:20}", *(f"{rate:12,.0f}" for rate in rates.values()), f"{found[program]['times']:8.2f}")
    return found


def missed(found: dict[str, dict[str, Any]], target: float) -> list[str]:
    """Return the programs whose rate is below the target."""
    return [program for program, rates in found.items() if not rates["times"] >= target]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compat", description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="gevent or eventlet (both)")
    parser.add_argument("--programs", nargs="+", help="only these")
    parser.add_argument("--scale", type=int, default=SCALE, help="how much of each is done")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        in_this_process(*options.measure)
        return 0
    packages = options.packages or list(TARGETS)
    for package in packages:
        if package not in TARGETS or find_spec(package) is None:
            parser.error(f"{package} is not installed here: make bench installs gevent and eventlet")
    found = {}
    for package in packages:
        programs = [each for each in PROGRAMS[package] if options.programs is None or each in options.programs]
        found[package] = run(package, programs, options.scale, options.rounds)
    late = {package: missed(each, TARGETS[package]) for package, each in found.items()}
    for package, programs in late.items():
        print(f"below {TARGETS[package]} times {package}'s rate: {', '.join(programs) or 'none'}")
    if options.json:
        where = surroundings("eventlet", rounds=options.rounds, scale=options.scale)
        options.json.write_text(json.dumps({"where": where, "programs": found, "missed": late}, indent=1) + "\n")
    return 1 if any(late.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
