"""Seeing inside: who waits for what, who blocks, where time goes. It costs nothing until it is asked."""

from __future__ import annotations

from .dump import dump
from .inspector import Inspector, inspect
from .logs import DhagaNames
from .origins import record as record_origins
from .page import Page, serve
from .signals import dump_at
from .stats import SchedulerStats, Stats, stats
from .trace import Trace, trace
from .views import DhagaView, SchedulerView, Snapshot, snapshot
from .watchdog import Blocked, Watchdog, watch

__all__ = [
    "Blocked",
    "DhagaNames",
    "DhagaView",
    "Inspector",
    "Page",
    "SchedulerStats",
    "SchedulerView",
    "Snapshot",
    "Stats",
    "Trace",
    "Watchdog",
    "dump",
    "dump_at",
    "inspect",
    "record_origins",
    "serve",
    "snapshot",
    "stats",
    "trace",
    "watch",
]
