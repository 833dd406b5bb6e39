"""The common base of the network and the disks: their own draws, the clock, and the run that gets their events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ..._kernel.process.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from .._schedule.events import Shown
    from .._schedule.run import Run

START = 1000.0
"""The first reading of ``time.monotonic``. Not 0, as a machine has been up for a while."""

WALL_START = 1_767_225_600.0 - START
"""The seconds that ``time.time`` adds to the clock: a run begins on 2026-01-01 at 0:00 UTC."""


class Part:
    """One part. ``name`` names it in the events, ``draws`` its draws."""

    name: str
    draws: str
    run: Run
    scheduler: Any

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.seed = seed
        self.draw = random.Random(f"{self.draws} {seed}")
        self.clock = clock

    def begin(self, run: Run, scheduler: Any) -> None:
        """Bind the part to its run."""
        self.run = run
        self.scheduler = scheduler

    def tell(self, what: str, shown: Shown | None = None) -> None:
        """Add an event of this part to the run. ``shown``: its text in reports."""
        self.run.tell(self.name, what, shown)

    def remark(self, shown: Shown) -> None:
        """Add what only a report shows of this part."""
        self.run.remark(self.name, shown)
