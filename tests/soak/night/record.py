"""The record of a night: a line of JSON for each sample and each trouble, and a verdict on processes that grow."""

from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.soak.machine import FLAT_MB, JUDGED, MB

QUANTITIES = ("memory", "fds", "threads", "dhagas")
ALLOWED = {"memory": FLAT_MB * MB, "fds": 4.0, "threads": 1.0, "dhagas": 4.0}
"""By how much the last third of the calm half of a night may be above the second, by the medians of their samples: as
the clients are few, a leak of one in a hundred requests is above it after a minute.
"""


class Sample(NamedTuple):
    """What one process had at one moment, in seconds since the begin. The master has no dhagas."""

    moment: float
    pid: int
    role: str
    memory: int
    fds: int
    threads: int
    dhagas: int


class Record:
    """All samples and troubles of a run, written to a file as they come."""

    def __init__(self, path: Path | None = None) -> None:
        self.began = time.monotonic()
        self.samples: list[Sample] = []
        self.events: list[tuple[float, str, float]] = []
        self.about: dict[str, Any] = {}
        self.file = path.open("w", encoding="ascii") if path else None

    def now(self) -> float:
        return round(time.monotonic() - self.began, 1)

    def add(self, sample: Sample) -> None:
        self.samples.append(sample)
        self._write(sample._asdict())

    def note(self, moment: float, what: str, seconds: float = 0.0) -> None:
        """Note a trouble, and how long it lasted."""
        self.events.append((moment, what, seconds))
        self._write({"moment": moment, "event": what, "seconds": round(seconds, 1)})

    def tell(self, **about: Any) -> None:
        """Say something of the whole run."""
        self.about |= about
        self._write({"about": about})

    def _write(self, line: dict[str, Any]) -> None:
        if self.file is not None:
            print(json.dumps(line), file=self.file, flush=True)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()

    # ---- what has come of it

    def growth(self, pid: int, quantity: str, begin: float, end: float) -> float | None:
        """Return by how much the last third of a time is above the second, by medians. None: there are no samples."""
        thirds = []
        for number in (1, 2):
            since, until = (begin + (end - begin) * n / 3 for n in (number, number + 1))
            found = [
                getattr(each, quantity) for each in self.samples if each.pid == pid and since <= each.moment <= until
            ]
            if not found:
                return None
            thirds.append(median(found))
        return thirds[1] - thirds[0]

    def verdicts(self, pids: set[int], begin: float, end: float) -> list[str]:
        """Say what is not flat of these processes in a time; less than JUDGED seconds tell nothing."""
        if end - begin < JUDGED:
            return []
        return [
            f"{quantity} of process {pid} is not flat: {growth:+,.0f}, at most {ALLOWED[quantity]:+,.0f} are allowed"
            for pid in sorted(pids)
            for quantity in QUANTITIES
            if (growth := self.growth(pid, quantity, begin, end)) is not None and growth > ALLOWED[quantity]
        ]


def read(path: Path) -> Record:
    """Return what a run has written, or has so far."""
    record = Record()
    for line in map(json.loads, path.read_text("ascii").splitlines()):
        if "pid" in line:
            record.samples.append(Sample(**line))
        elif "event" in line:
            record.events.append((line["moment"], line["event"], line["seconds"]))
        else:
            record.about |= line["about"]
    return record
