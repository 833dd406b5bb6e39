"""Simulation: a threaded program on a seed, which decides who runs next, the time and all draws."""

from __future__ import annotations

from ._determinism import check_determinism
from ._errors import HostKilled, LimitReached, NotDeterministic, NotSimulated
from ._history import Call, History, NotLinearizable
from ._linearizability import IMPOSSIBLE, UNKNOWN, registers
from ._outcome import Outcome, Settings
from ._search import Findings, search
from ._shrink import shrink
from ._strategies import FIFO, PCT, Exhaustive, Mixed, Random, Strategy
from ._world import Simulation, current

__all__ = [
    "FIFO", "IMPOSSIBLE", "PCT", "UNKNOWN", "Call", "Exhaustive", "Findings", "History", "HostKilled", "LimitReached",
    "Mixed", "NotDeterministic", "NotLinearizable", "NotSimulated", "Outcome", "Random", "Settings", "Simulation",
    "Strategy", "check_determinism", "current", "registers", "search", "shrink",
]  # fmt: skip
