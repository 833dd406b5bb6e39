"""The gain from group commit: appends per second of several dhagas, to the log and with one write per append."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import dhaga
from benchmarks.file_io.write_paths import RECORD, File
from examples.wal import WriteAheadLog

CALLERS = (1, 10, 100)


def rate(append: Callable[[], object], callers: int, seconds: float) -> float:
    """Return the appends per second of ``callers`` dhagas."""
    over = perf_counter() + seconds
    done = 0

    def appends() -> None:
        nonlocal done
        while perf_counter() < over:
            append()
            done += 1

    began = perf_counter()
    for each in [dhaga.spawn(appends) for _ in range(callers)]:
        each.join()
    return done / (perf_counter() - began)


def measure(directory: Path, seconds: float) -> dict[str, dict[str, float]]:
    """Return the rates, by way and number of callers."""
    found: dict[str, dict[str, float]] = {"the log": {}, "one write each": {}}
    file = File(directory / "single")
    record = bytes(RECORD)
    with WriteAheadLog(directory / "grouped") as log, dhaga.OffloadPool("single", threads=1) as pool:
        for callers in CALLERS:
            found["the log"][str(callers)] = rate(lambda: log.append(record), callers, seconds)
            found["one write each"][str(callers)] = rate(lambda: pool.offload(file.write), callers, seconds)
    file.close()
    return found
