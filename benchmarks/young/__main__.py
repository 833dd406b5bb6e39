"""Dhaga compared with young microthread frameworks and simulation tools, in five minutes: `python -m benchmarks.young`.

The frameworks take turns at each work, each in a new process on one CPU. Frameworks with several OS threads use only
one. Samples are CPU time. Some frameworks are best on free-threaded Pythons with many cores, which is not measured
here. Results go to benchmarks/results/young.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import surroundings
from benchmarks.simulation.environments import ROOT, environment_of, version_here
from benchmarks.young.simulations import MODELS, MOST, wrong_order_of_threads

RELEASES = {
    "dhaga": "",
    "runloom": "runloom==0.2.0",
    "pyroutine": "pyroutine-rt==0.1.0",
    "tealetio": "tealetio[asyncio]==0.1.0rc1",
    "asyncio_gevent": "asyncio-gevent==0.2.5",
}
SIMULATION_RELEASES = {
    "dhaga": "",
    "simloom": "simloom==0.5.0",
    "seedloop": "seedloop==0.4.1",
    "detangle": "detangle==0.1.0",
}
WORKS = ("spawn_join", "yield_ring", "ping_pong", "await_coroutine", "sleepers")
WITH_COROUTINES = ("dhaga", "tealetio", "asyncio_gevent")
ROUNDS = 5
RESULTS = ROOT / "benchmarks/results/young.json"


def sample(release: str, module: str, *arguments: str) -> Any:
    """Return the sample that a new process measures. Raises: CalledProcessError."""
    python = environment_of([release] if release else [], version_here())
    command = [str(python), "-m", f"benchmarks.young.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def measured(rounds: int) -> dict[str, dict[str, float]]:
    """Return the medians over the rounds, by work and framework: seconds per operation, and the bytes of a sleeper."""
    samples: dict[str, dict[str, list[float]]] = {}
    for turn in range(rounds):
        for work in WORKS:
            for framework, release in RELEASES.items():
                if work == "await_coroutine" and framework not in WITH_COROUTINES:
                    continue
                found = sample(release, "child", framework, work)
                for key, value in {work: found}.items() if isinstance(found, float) else found.items():
                    name = key if key == work else f"{work} {key}"
                    samples.setdefault(name, {}).setdefault(framework, []).append(value)
        print(f"round {turn + 1} of {rounds}", flush=True)
    return {name: {each: median(values) for each, values in found.items()} for name, found in samples.items()}


def searched() -> dict[str, dict[str, Any]]:
    """Return what each tool finds in each model. Only Dhaga's simulation supports threads."""
    return {
        tool: {
            model: sample(release, "simulations", tool, model)
            for model in MODELS
            if tool == "dhaga" or model != wrong_order_of_threads.__name__
        }
        for tool, release in SIMULATION_RELEASES.items()
    }


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.young", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds to take the median of")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where results go")
    options = parser.parse_args()
    results = {
        "where": surroundings(rounds=options.rounds),
        "releases": RELEASES,
        "works": measured(options.rounds),
        "simulation releases": SIMULATION_RELEASES,
        "most": MOST,
        "simulations": searched(),
    }
    options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
