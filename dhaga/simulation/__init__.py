"""Simulation of threaded programs. A seed decides each switch of threads, the time and all random draws."""

from __future__ import annotations

from ._base.errors import HostKilled, LimitReached, NotDeterministic, NotSimulated
from ._history.history import Call, History, NotLinearizable
from ._history.linearizability import IMPOSSIBLE, UNKNOWN, registers
from ._schedule.strategies import FIFO, PCT, Exhaustive, Mixed, Random, Strategy
from ._search.determinism import check_determinism
from ._search.outcome import Outcome, Settings
from ._search.search import Findings, search
from ._search.shrink import shrink
from ._world.world import Simulation, current

__all__ = [
    "FIFO", "IMPOSSIBLE", "PCT", "UNKNOWN", "Call", "Exhaustive", "Findings", "History", "HostKilled", "LimitReached",
    "Mixed", "NotDeterministic", "NotLinearizable", "NotSimulated", "Outcome", "Random", "Settings", "Simulation",
    "Strategy", "check_determinism", "current", "registers", "search", "shrink",
]  # fmt: skip
