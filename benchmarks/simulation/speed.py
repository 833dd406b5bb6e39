"""The speed of a simulation, in CPU seconds: an hour of the notification server, and the events of 100 threads.

All runs are without preemption, each in a new process. Targets: less than 10 s for the hour; 100,000 events per second.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any

from .environments import ROOT

SEEDS = (1, 2, 3, 4)
"""Seeds of the hour. Each seed draws another strategy, and another tick and latency of the network."""

STRATEGIES = ("pct:3", "random", "fifo")

OF_THREADS = ("yields", "queues", "locks")

ROUNDS = 3


def run(name: str, strategy: str, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.simulation.speed_child", name, strategy, str(seed)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    print(name, strategy, seed, found, flush=True)
    return found


def measure() -> dict[str, Any]:
    """Run the hour with its seeds, and each program of threads with each strategy."""
    hours = {str(seed): run("hour", "mixed", seed) for seed in SEEDS}
    threads: dict[str, Any] = {}
    for name in OF_THREADS:
        for strategy in STRATEGIES:
            rounds = [run(name, strategy, 1) for _ in range(ROUNDS)]
            rates = [round(each["events"] / each["cpu"]) for each in rounds]
            threads.setdefault(name, {})[strategy] = {"events": rounds[0]["events"], "rates": rates}
    return {"hours": hours, "threads": threads}


ROWS = {
    "yields": "yields of 100 threads, all runnable",
    "queues": "50 pairs of threads that pass items through queues",
    "locks": "100 threads that sleep under one lock",
}


def table(found: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [f"| events a second of CPU | {' | '.join(STRATEGIES)} |", "|---|" + "---:|" * len(STRATEGIES)]
    for name, row in ROWS.items():
        cells = [f"{statistics.median(found['threads'][name][each]['rates']):,.0f}" for each in STRATEGIES]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    seconds = [each["cpu"] for each in found["hours"].values()]
    events = [each["events"] for each in found["hours"].values()]
    hour = (
        f"An hour of the notification server with 1,000 clients, {min(events):,} to {max(events):,} events: "
        f"{min(seconds):.1f} to {max(seconds):.1f} s of CPU, by the seed."
    )
    return "\n".join([hour, "", *lines])
