"""Measures how long a dhaga waits for its turn while many others compute: `python -m benchmarks.priorities`.

1,000 NORMAL dhagas compute for 50 µs between two yields. Another dhaga is woken about every 20 ms, by a deadline or by
a message from another process, which contains the send time. How long after the wake does this dhaga run? It is HIGH in
one measurement and NORMAL in the other.

`--before CHECKOUT` measures the cost of priorities in programs that do not use them. It times a yield and a spawn +
join in this checkout and in the given earlier checkout in turn, each in a new process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import dhaga
from benchmarks.machine import surroundings
from dhaga import HIGH, NORMAL, Priority, socket

COMPUTING = 1000
COMPUTES = 0.000_05
PAUSE = 0.02
BYTES = 8
SENDER = """
import random, socket, struct, sys, time
out = socket.socket(fileno=int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    time.sleep(float(sys.argv[3]) * random.uniform(0.5, 1.5))
    out.send(struct.pack("d", time.monotonic()))
"""
TIMED = """
from time import thread_time
from benchmarks.kernel import on_dhaga
best = {}
for work, count, sizes in ("yield_ring", 100_000, (100,)), ("spawn_join", 10_000, ()):
    for _ in range(5):
        began = thread_time()
        getattr(on_dhaga, work)(count, *sizes)
        best[work] = min(best.get(work, 9.0), (thread_time() - began) / count)
print(best["yield_ring"], best["spawn_join"])
"""


def _by_deadline(samples: int) -> list[float]:
    """Sleep, again and again. Returns: the delay of each wake, in seconds."""
    delays = []
    for n in range(samples):
        pause = PAUSE * (0.5 + n / samples)
        due = monotonic() + pause
        dhaga.sleep(pause)
        delays.append(monotonic() - due)
    return delays


def _by_message(samples: int) -> list[float]:
    """Receive send times from another process. Returns: the age of each message, in seconds."""
    mine, its = socket.socketpair()
    fd = its.fileno()
    command = [sys.executable, "-c", SENDER, str(fd), str(samples), str(PAUSE)]
    sender = subprocess.Popen(command, pass_fds=[fd])
    delays = []
    with mine, its:
        for _ in range(samples):
            (sent,) = memoryview(mine.recv(BYTES)).cast("d")
            delays.append(monotonic() - sent)
    dhaga.offload(sender.wait)
    return delays


def _among_the_crowd(work: Callable[[int], list[float]], priority: Priority, samples: int) -> list[float]:
    done = False

    def computes() -> None:
        while not done:
            end = perf_counter() + COMPUTES
            while perf_counter() < end:
                pass
            dhaga.sleep(0)

    computing = [dhaga.spawn(computes) for _ in range(COMPUTING)]
    delays: list[float] = dhaga.spawn(work, samples, priority=priority).result()
    done = True
    for each in computing:
        each.join()
    return delays


def _figures(delays: list[float]) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    cuts = statistics.quantiles(delays, n=100, method="inclusive")
    return {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3, "worst": max(delays) * 1e3}


def _delays(samples: int) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for work in (_by_deadline, _by_message):
        for priority in (HIGH, NORMAL):
            # a NORMAL dhaga waits each time for all computing dhagas, so take fewer samples
            delays = _among_the_crowd(work, priority, samples if priority is HIGH else max(20, samples // 10))
            found.setdefault(work.__name__.strip("_").replace("_", " "), {})[priority.name] = _figures(delays)
    return found


def _cost(checkout: Path) -> list[float]:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    output = subprocess.run(
        [sys.executable, "-c", TIMED], cwd=checkout, env=environment, check=True, capture_output=True, text=True
    )
    return [float(word) for word in output.stdout.split()]


def _cost_of_priorities(before: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the minimum CPU time of a yield and of a spawn + join in both checkouts, in µs, and the ratio."""
    checkouts = [before, Path(__file__).parent.parent]
    samples: list[list[list[float]]] = [[], []]
    for n in range(rounds):
        for which in (0, 1) if n % 2 else (1, 0):
            samples[which].append(_cost(checkouts[which]))
    least = [[min(column) * 1e6 for column in zip(*each, strict=True)] for each in samples]
    return {
        name: {"before": was, "now": now, "ratio": now / was}
        for name, was, now in zip(("yield", "spawn + join"), *least, strict=True)
    }


def main() -> None:
    """Measure, print, and write the figures where `--json` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.priorities")
    parser.add_argument("--samples", type=int, default=500, metavar="N", help="wakes of the HIGH one (500)")
    parser.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="a checkout to compare the cost of a yield with"
    )
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="of that comparison (8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    results: dict[str, Any] = {"where": surroundings(rounds=options.rounds), "delays": _delays(options.samples)}
    for work, each in results["delays"].items():
        for priority, figures in each.items():
            print(f"{work:12} {priority:6}", *(f"{name} {value:8.3f} ms" for name, value in figures.items()))
        print(f"{work:12} p99 of NORMAL / p99 of HIGH: {each['NORMAL']['p99'] / each['HIGH']['p99']:.0f}")
    if options.before:
        results["cost"] = _cost_of_priorities(options.before, options.rounds)
        for name, costs in results["cost"].items():
            print(f"{name}: before {costs['before']:.3f} µs, now {costs['now']:.3f} µs, ratio {costs['ratio']:.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
