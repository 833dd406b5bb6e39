"""Runs the rows: each measurement in a new process, the rivals in turn (A B C A B C ...). Every sample is kept.

Rivals measured shortly after each other have the same noise. So ratios are computed within a round, and the result is
their median over the rounds.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.kernel import echo
from benchmarks.kernel.rows import Row, Target, column_of
from benchmarks.machine import cpus, surroundings

NEEDED = {"dhaga": "dhaga", "gevent": "gevent", "uvloop": "uvloop", "raw": "greenlet"}
PATIENCE = 300.0  # seconds a measurement may take


@dataclass(frozen=True)
class Effort:
    """The extent of the measurement: rounds, minimum seconds of a loop, and seconds under load."""

    rounds: int
    loop: float
    load: float


@dataclass
class Results:
    """All samples (row -> rival -> one per round), the load's figures, the failures, and the machine's description."""

    where: dict[str, Any]
    samples: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    loads: dict[str, dict[str, list[echo.Result]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, row: Row, rival: str, sample: float, load: echo.Result | None) -> None:
        """Keep one sample."""
        self.samples.setdefault(row.name, {}).setdefault(rival, []).append(sample)
        if load is not None:
            self.loads.setdefault(row.name, {}).setdefault(rival, []).append(load)

    def fail(self, row: Row, rival: str, why: str) -> None:
        """Record that a rival gave no sample."""
        self.failures.setdefault(row.name, {})[rival] = why

    def of(self, row: Row, rival: str) -> list[float]:
        """Return the samples of one rival."""
        return self.samples.get(row.name, {}).get(rival, [])

    def median(self, row: Row, rival: str) -> float | None:
        """Return the median of one rival's samples."""
        samples = self.of(row, rival)
        return statistics.median(samples) if samples else None

    def ratio(self, row: Row, target: Target) -> float | None:
        """Return the figure that the target bounds: the median over the rounds of a ratio of rates or of costs."""
        ours = self.of(row, "dhaga")
        if target.than is None:
            return statistics.median(ours) * row.unit.factor if ours else None
        theirs = self.of(row, row.forms(target.than)[0])
        quotients = [mine / other for mine, other in zip(ours, theirs, strict=False)]
        if row.unit.rate != target.of_rate:
            quotients = [1 / quotient for quotient in quotients]
        return statistics.median(quotients) if quotients else None

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load_from(cls, path: Path) -> "Results":
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))


def _command(row: Row, rival: str) -> list[str]:
    module, _, form = rival.partition(":")
    return [sys.executable, "-m", "benchmarks.kernel.child", module, f"{row.work}_{form}" if form else row.work]


def _loop(row: Row, rival: str, effort: Effort) -> float:
    """Run one loop in its process. Returns: its sample."""
    command = [*_command(row, rival), "--least", str(effort.loop), "--step", str(row.step)]
    if (count := row.count_of(rival)) is not None:
        command += ["--count", str(count)]
    command += ["--sizes", *map(str, row.sizes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")
    return float(json.loads(done.stdout)["sample"])


def _measure(row: Row, rival: str, effort: Effort, results: Results) -> None:
    try:
        if row.work != "echo":
            results.add(row, rival, _loop(row, rival, effort), None)
        else:
            load = echo.measure(_command(row, rival), row.sizes[0], row.sizes[1], effort.load)
            results.add(row, rival, load["rate"], load)
    except (RuntimeError, subprocess.SubprocessError, ValueError, OSError) as error:
        results.fail(row, rival, f"{type(error).__name__}: {error}")


def _missing(rival: str) -> bool:
    needed = NEEDED.get(column_of(rival))
    return needed is not None and find_spec(needed) is None


def run(rows: Iterable[Row], columns: Collection[str], effort: Effort, progress: Callable[[str], None]) -> Results:
    """Run the rows with the installed rivals of these columns. A rival that fails in a row is not run again in it."""
    where = surroundings(**asdict(effort)) | {"load": echo.load_name(), "pinned": cpus() is not None}
    results = Results(where)
    for row in rows:
        rivals = [rival for rival in row.rivals if column_of(rival) in columns and not _missing(rival)]
        for number in range(1, effort.rounds + 1):
            for rival in rivals:
                if rival in results.failures.get(row.name, {}):
                    continue
                progress(f"{row.name}, round {number} of {effort.rounds}: {rival}")
                _measure(row, rival, effort, results)
    return results
