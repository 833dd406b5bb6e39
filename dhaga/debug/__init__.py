"""Debugging tools for a running program: dumps, statistics, traces, watchdog, inspector. Unused tools cost nothing."""

from __future__ import annotations

from ._dump import dump
from ._dump_signal import dump_at
from ._log_filter import DhagaNames
from ._remote.inspector import Inspector, inspect
from ._remote.web_page import Page, serve
from ._snapshot import DhagaView, SchedulerView, Snapshot, snapshot
from ._spawn_sites import record as record_origins
from ._stats import SchedulerStats, Stats, stats
from ._trace import Trace, trace
from ._watchdog import Blocked, Watchdog, watch

__all__ = [
    "Blocked", "DhagaNames", "DhagaView", "Inspector", "Page", "SchedulerStats", "SchedulerView", "Snapshot", "Stats",
    "Trace", "Watchdog", "dump", "dump_at", "inspect", "record_origins", "serve", "snapshot", "stats", "trace", "watch",
]  # fmt: skip
