"""How long a caller waits for one durable write, each way, with idle and with busy schedulers, in turn."""

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
"""Seconds between two writes, in which the others run."""

BUDGET = 0.6
"""Seconds after which a block takes no more samples: where one may take a second, there are fewer."""


ALONE = 0.1
"""Seconds for which the turns of the others are counted without writes."""


@dataclass
class WaitTimes:
    """What one way has given, in one state, in seconds."""

    all: list[float] = field(default_factory=list)
    start: list[float] = field(default_factory=list)  # until the write began, in its thread
    write: list[float] = field(default_factory=list)  # until it had ended there
    back: list[float] = field(default_factory=list)  # until the caller ran again
    turns: list[float] = field(default_factory=list)  # of the others, a second, block by block

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
    """Take some samples of one way in one state; of none: see how many turns the others have then."""
    with interval_of(way), under_load() if busy else nullcontext() as others:
        turns, began = others.turns if others else 0, perf_counter()
        if way is None:
            dhaga.sleep(ALONE)
        else:
            dhaga.spawn(waits.take_some, way, samples, priority=way.priority).result()
        if others:
            waits.turns.append((others.turns - turns) / (perf_counter() - began))


def measure(directory: Path, blocks: int, samples: int) -> dict[str, dict[str, Any]]:
    """Measure all ways. Returns: per way and state, what came of it; `nobody` is the background load alone."""
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
