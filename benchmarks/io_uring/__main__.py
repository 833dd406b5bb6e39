"""File operations by io_uring beside `offload`: `python -m benchmarks.io_uring`.

Each operation is made inline, through `dhaga.offload`, and by an io_uring ring whose completions wake the poller. Short
rounds of the ways take turns, on an idle scheduler and with three dhagas that compute for 50 µs between two yields.
Then 1 to 1,000 dhagas make the operation at once. The median is the median of the rounds' medians. p99 is the lower
quartile of the rounds' 99th percentiles, because other programs can only increase it. CPU time includes the kernel's
workers, but not the computing dhagas. Targets beside busy dhagas: p99 at most half of offload's, and CPU time at most
0.7 of offload's.
"""

import argparse
import gc
import json
import resource
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import dhaga
from benchmarks.file_io.disk import default
from benchmarks.io_uring.calls import RingCalls
from benchmarks.io_uring.operations import OFFLOAD, RING, WAYS, Files, Operation
from benchmarks.machine import surroundings

BUSY = 3
COMPUTES = 0.000_05
CROWDS = (1, 10, 100, 1000)
CROWD_CALLS = 1000
"""Operations of all dhagas together in a round, if this is at least three per dhaga."""
CALIBRATION = 0.03
"""Seconds for which the CPU time of a turn is measured before each block."""


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Busy:
    """Dhagas that compute, and the number of turns that they have had."""

    def __init__(self) -> None:
        self.turns, self.over, self.steps = 0, False, 100
        while self._seconds() < COMPUTES:
            self.steps += 50

    def _work(self) -> None:
        for _ in range(self.steps):
            pass

    def _seconds(self) -> float:
        times = []
        for _ in range(20):
            began = perf_counter()
            self._work()
            times.append(perf_counter() - began)
        return min(times)

    def _compute(self) -> None:
        while not self.over:
            self._work()
            self.turns += 1
            dhaga.sleep(0)

    @contextmanager
    def running(self, busy: bool) -> Iterator[None]:
        """Let the dhagas compute during the block if ``busy``."""
        self.over = False
        dhagas = [dhaga.spawn(self._compute) for _ in range(BUSY * busy)]
        try:
            yield
        finally:
            self.over = True
            for each in dhagas:
                each.join()

    def cost_of_a_turn(self) -> float:
        """Return the CPU time of a turn, in seconds."""
        turns, used = self.turns, _cpu()
        dhaga.sleep(CALIBRATION)
        return (_cpu() - used) / max(1, self.turns - turns)


def _block(operation: Operation, way: str, calls: int, busy: Busy) -> tuple[float, float, float]:
    """Make calls. Returns: median and 99th percentile of the waits, and CPU time per call, in µs. From: a dhaga."""
    operation.prepare()
    call, waits, turn = operation.ways[way], [], busy.cost_of_a_turn()
    turns, used = busy.turns, _cpu()
    for _ in range(calls):
        began = perf_counter()
        call()
        waits.append(perf_counter() - began)
    used = _cpu() - used - turn * (busy.turns - turns)
    return (
        statistics.median(waits) * 1e6,
        statistics.quantiles(waits, n=100, method="inclusive")[98] * 1e6,
        used / calls * 1e6,
    )


def _alone(operation: Operation, rounds: int, calls: int, busy: Busy, beside: bool) -> dict[str, dict[str, float]]:
    found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    with busy.running(beside):
        for number in range(rounds):
            for way in WAYS[:: 1 if number % 2 else -1]:
                found[way].append(dhaga.spawn(_block, operation, way, calls, busy).result())
    return {
        way: {
            "median": statistics.median(each[0] for each in blocks),
            "p99": statistics.quantiles([each[1] for each in blocks], n=4, method="inclusive")[0],
            "CPU": statistics.median(each[2] for each in blocks),
        }
        for way, blocks in found.items()
    }


def _crowd(operation: Operation, way: str, many: int) -> tuple[float, float]:
    """Return time and CPU time per call in µs, when ``many`` dhagas make the operation at once."""
    each = max(3, CROWD_CALLS // many)
    operation.prepare()

    def makes() -> None:
        for _ in range(each):
            operation.ways[way]()

    began, used = perf_counter(), _cpu()
    for caller in [dhaga.spawn(makes) for _ in range(many)]:
        caller.join()
    count = each * many / 1e6
    return (perf_counter() - began) / count, (_cpu() - used) / count


def _crowds(operation: Operation, rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for many in CROWDS if operation.in_crowds else ():
        runs = [{way: _crowd(operation, way, many) for way in WAYS} for _ in range(rounds)]
        found[str(many)] = {
            way: {
                "each": statistics.median(run[way][0] for run in runs),
                "CPU": statistics.median(run[way][1] for run in runs),
            }
            for way in WAYS
        }
    return found


def _ratio(ways: dict[str, dict[str, float]], figure: str) -> str:
    return f"{ways[RING][figure] / ways[OFFLOAD][figure]:.2f}"


def _print(name: str, found: dict[str, Any]) -> None:
    for state in ("idle", "busy"):
        ways = found[state]
        figures = "; ".join(f"{way} {' / '.join(f'{each:.1f}' for each in ways[way].values())}" for way in WAYS)
        ratios = ", ".join(f"{figure} {_ratio(ways, figure)}" for figure in ("median", "p99", "CPU"))
        print(f"{name}, {state}: median / p99 / CPU µs: {figures}; ring to offload: {ratios}", flush=True)
    for many, ways in found["at once"].items():
        print(f"{name}, {many} at once: ring to offload: time {_ratio(ways, 'each')}, CPU {_ratio(ways, 'CPU')}")


def main() -> None:
    """Measure, print, and write the figures where `--json` says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.io_uring", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="of each way, at least 2 (%(default)s)")
    parser.add_argument("--calls", type=int, default=100, metavar="N", help="of a round, at least 2 (%(default)s)")
    parser.add_argument("--folder", type=Path, default=default(), help="on the disk to be measured (%(default)s)")
    parser.add_argument("--only", default="", metavar="NAME", help="operations whose name has this")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    dhaga.spawn(int).join()  # from now on the main code parks, too
    gc.disable()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="dhaga-io-uring-", dir=options.folder) as name:
        ring = RingCalls(Path(name))
        files, busy = Files(Path(name), ring), Busy()
        for operation in files.all():
            if options.only in operation.name:
                found[operation.name] = {
                    "idle": _alone(operation, options.rounds, options.calls, busy, beside=False),
                    "busy": _alone(operation, options.rounds, options.calls, busy, beside=True),
                    "at once": _crowds(operation, max(1, options.rounds // 3)),
                }
                _print(operation.name, found[operation.name])
        files.close()
        ring.close_ring()
    if options.json:
        where = surroundings(rounds=options.rounds, calls=options.calls)
        options.json.write_text(json.dumps({"where": where, "operations": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
