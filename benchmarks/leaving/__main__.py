"""The cost of leaving: `python -m benchmarks.leaving`.

Many dhagas wait for the same thing. Up to 500 of them, chosen at random, leave by a cancel or a timeout. How much CPU
time does each one cost, and does this grow with the number of waiting dhagas? Also measured: 100,000 deadlines in
random order expire within 1 s on one event. How long are other dhagas delayed? Each figure is measured in a new
process, and is the median of several rounds.

gevent's cancels are also measured, if gevent has the primitive and is installed. gevent's timeouts are not measured: on
a busy machine, the deadlines pass before enough greenlets wait.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.leaving.settings import COUNTS
from benchmarks.machine import surroundings

RIVALS = ("dhaga", "gevent")
WAYS = (
    "lock",
    "semaphore",
    "condition",
    "event",
    "queue",
    "simple queue",
    "join",
    "future",
    "offload",
    "socket read",
)
NOT_IN_GEVENT = ("condition", "offload", "socket read")
ENDS = ("cancel", "timeout")
GROWS_AT_MOST = 3.0
"""The target: the cost at the largest number of waiters is at most this many times the cost at 10,000.
Cache misses already increase the cost somewhat.
"""
STALL_AT_MOST = 0.05
"""The target: maximum CPU seconds without a turn for other dhagas, while 100,000 deadlines expire within a second."""
PATIENCE = 300.0


def measure(rival: str, what: str, *arguments: Any) -> Any:
    """Measure in a new process. Returns: the result of the function named ``what``; None if the process has failed."""
    command = [sys.executable, "-m", "benchmarks.leaving", "--measure", json.dumps([rival, what, *arguments])]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=PATIENCE)
    return json.loads(done.stdout) if done.returncode == 0 else None


def in_this_process(rival: str, what: str, *arguments: Any) -> None:
    """Measure in this process, print the figure and exit at once, so that 100,000 waiters need not be ended."""
    module = importlib.import_module(f"benchmarks.leaving.on_{rival}")
    gc.disable()
    print(json.dumps(getattr(module, what)(*arguments)), flush=True)
    os._exit(0)


def median(samples: list[float | None]) -> float:
    """Return the median of the samples that are not None; NaN if there are none."""
    found = [sample for sample in samples if sample is not None]
    return statistics.median(found) if found else math.nan


def rows(rivals: list[str], ways: Iterable[str] = WAYS) -> list[tuple[str, str, str]]:
    return [
        (rival, way, by)
        for way in ways
        for by in ENDS
        for rival in rivals
        if rival == "dhaga" or (way not in NOT_IN_GEVENT and by == "cancel")
    ]


def run(rivals: list[str], ways: list[str], counts: list[int], rounds: int) -> dict[str, Any]:
    """Return all figures: microseconds per leaver, by row and count, and milliseconds of the longest stall."""
    costs: dict[str, dict[str, float]] = {}
    for rival, way, by in rows(rivals, ways):
        each = {
            str(count): 1e6 * median([measure(rival, "cost", way, by, count) for _ in range(rounds)])
            for count in counts
        }
        costs[f"{rival}: {way}, {by}"] = each
        print(f"{rival + ': ' + way + ', ' + by:34}", *(f"{cost:10.1f}" for cost in each.values()), flush=True)
    stalls = {}
    for rival, priority in (("dhaga", "NORMAL"), ("dhaga", "HIGH"), ("dhaga", "LOOP")):
        if rival in rivals:
            found = [measure(rival, "stall", priority, counts[-1]) for _ in range(rounds)]
            stalls[f"{rival}, {priority}"] = {
                key: 1e3 * median([each and each[key] for each in found]) for key in ("longest", "took")
            }
            print(f"stall, {rival}, {priority:24}", stalls[f"{rival}, {priority}"], flush=True)
    return {"costs": costs, "stalls": stalls}


def missed(found: dict[str, Any]) -> list[str]:
    """Return Dhaga's rows whose cost grows too much, and the stalls that last too long."""
    late = [
        row
        for row, by_count in found["costs"].items()
        if row.startswith("dhaga") and (costs := list(by_count.values()))[-1] > GROWS_AT_MOST * max(costs[-2], 5.0)
    ]
    loop = found["stalls"]["dhaga, LOOP"]["longest"]
    return [*late, *(["stall, LOOP"] if loop > 1e3 * STALL_AT_MOST else [])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaving", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS), help="how many wait")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rivals", nargs="+", default=[each for each in RIVALS if find_spec(each)], choices=RIVALS)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        in_this_process(*options.measure)
    print(f"{'CPU µs for one that leaves, among':34}", *(f"{count:10,}" for count in options.counts), flush=True)
    found = run(options.rivals, options.ways, options.counts, options.rounds)
    late = missed(found)
    print(f"missed: {', '.join(late)}" if late else "no cost grows with the number of those that wait")
    if options.json:
        where = surroundings(rounds=options.rounds)
        options.json.write_text(json.dumps({"where": where, **found, "missed": late}, indent=1) + "\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
