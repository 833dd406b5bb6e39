"""The base of the network and of the disks. Each has its own random draws, the shared clock, and the current run."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ..._kernel.process.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from .._schedule.events import Shown
    from .._schedule.run import Run

START = 1000.0
"""The virtual time in seconds at which a run begins. It is above 0, like the uptime of a real machine."""

WALL_START = 1_767_225_600.0 - START
"""The seconds that ``time.time`` adds to the virtual clock: each run begins on 2026-01-01 at 0:00 UTC."""


class Part:
    """One part of a simulation. ``name``: its name in the events.

    ``draws``: a text that is put before the seed, so that each part has random draws of its own.
    """

    name: str
    draws: str
    run: Run
    scheduler: Any

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.seed = seed
        self.draw = random.Random(f"{self.draws} {seed}")
        self.clock = clock

    def begin(self, run: Run, scheduler: Any) -> None:
        """Bind the part to its run and to the scheduler."""
        self.run = run
        self.scheduler = scheduler

    def tell(self, what: str, shown: Shown | None = None) -> None:
        """Add an event of this part to the run. ``shown``: the text of the event in reports."""
        self.run.tell(self.name, what, shown)

    def remark(self, shown: Shown) -> None:
        """Add a text about this part. Only reports show the text."""
        self.run.remark(self.name, shown)
