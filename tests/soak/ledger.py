"""The ledger of a run: what was done so far, what trouble was made, and what has gone wrong. From: any thread."""

from __future__ import annotations

import threading
import time
import traceback
from typing import NamedTuple

from dhaga.metrics import Counter


class Tally:
    """Counts by name."""

    def __init__(self) -> None:
        self.counters: dict[str, Counter] = {}
        self.last: dict[str, float] = {}
        """When each was counted last."""

    def __str__(self) -> str:
        return ", ".join(f"{name} {counter.total:,}" for name, counter in sorted(self.counters.items())) or "none"

    def __getitem__(self, name: str) -> int:
        counter = self.counters.get(name)
        return 0 if counter is None else counter.total

    def add(self, name: str, n: int = 1) -> None:
        """Count ``n`` more."""
        self.counters.setdefault(name, Counter()).add(n)
        self.last[name] = time.monotonic()

    def total(self) -> int:
        """Return the sum of all."""
        return sum(counter.total for counter in self.counters.values())


class Failure(NamedTuple):
    """A broken invariant."""

    what: str
    error: BaseException | None

    def __str__(self) -> str:
        trace = [] if self.error is None else traceback.format_exception(self.error)
        return f"{self.what}\n{''.join(trace)}".rstrip()

    def headline(self) -> str:
        """Say it on one line."""
        why = "" if self.error is None else f": {self.error!r}"
        return " ".join(f"{self.what}{why}".split())[:300]


class Ledger:
    """Operations by scenario, troubles by kind, and the invariant that was broken first."""

    def __init__(self) -> None:
        self.operations = Tally()
        self.troubles = Tally()
        self.failures: list[Failure] = []
        self.failed = threading.Event()

    def fail(self, what: str, error: BaseException | None = None) -> None:
        """Note that an invariant is broken: the run ends here and now, see ``watch.py``."""
        self.failures.append(Failure(what, error))
        self.failed.set()
