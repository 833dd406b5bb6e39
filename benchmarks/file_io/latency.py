"""Measures how long a caller waits for one durable write. All ways take turns, on an idle and on a busy scheduler."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import dhaga
from benchmarks.file_io.background_load import under_load
from benchmarks.file_io.write_paths import WritePath, interval_of, ways

PAUSE = 0.001
"""Seconds between two writes, in which other dhagas run."""

BUDGET = 0.6
"""Seconds after which a block takes no more samples. If a sample takes long, a block has fewer samples."""


ALONE = 0.1
"""Seconds in which the turns of the computing dhagas are counted without writes."""


@dataclass
class WaitTimes:
    """The waits of one way in one state (idle or busy), in seconds."""

    all: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)  # from the call to the start of the write in its thread
    write: list[float] = field(default_factory=list)  # from the start to the end of the write
    back: list[float] = field(default_factory=list)  # from the end of the write until the caller ran again
    turns: list[float] = field(default_factory=list)  # turns per second of the computing dhagas, one figure per block

    def take(self, way: WritePath) -> None:
        """Make one write."""
        began = perf_counter()
        span = way.write()
        ended = perf_counter()
        self.all.append(ended - began)
        if span is not None:
            self.start.append(span[0] - began)
            self.write.append(span[1] - span[0])
            self.back.append(ended - span[1])

    def take_some(self, way: WritePath, samples: int) -> None:
        """Make some writes, one after the other. From: a dhaga."""
        over = perf_counter() + BUDGET
        for _ in range(samples):
            self.take(way)
            dhaga.sleep(PAUSE)
            if perf_counter() > over:
                break


def block(way: WritePath | None, busy: bool, samples: int, waits: WaitTimes) -> None:
    """Take samples of one way in one state; if ``way`` is None, only count the turns of the computing dhagas."""
    with interval_of(way), under_load() if busy else nullcontext() as others:
        turns, began = others.turns if others else 0, perf_counter()
        if way is None:
            dhaga.sleep(ALONE)
        else:
            dhaga.spawn(waits.take_some, way, samples, priority=way.priority).result()
        if others:
            waits.turns.append((others.turns - turns) / (perf_counter() - began))


def measure(directory: Path, blocks: int, samples: int) -> dict[str, dict[str, Any]]:
    """Measure all ways. Returns: the waits by way and state; `nobody` is the background load without writes."""
    found: defaultdict[tuple[str, str], WaitTimes] = defaultdict(WaitTimes)
    with ways(directory) as all_ways:
        for _ in range(blocks):
            block(None, True, samples, found["nobody", "busy"])
            for way in all_ways:
                for state in ("idle", "busy"):
                    block(way, state == "busy", samples, found[way.name, state])
    result: dict[str, dict[str, Any]] = {}
    for (name, state), waits in found.items():
        result.setdefault(name, {})[state] = vars(waits)
    return result
