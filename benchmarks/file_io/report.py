"""Computes tables and claims from the results of the rounds. The notes on them are in ``notes.py``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.file_io.write_paths import RECORD, URGENT, WAYS
from benchmarks.tables.outcome import Claim, Table

Round = dict[str, Any]
"""The result of one process; see ``benchmarks/file_io/child.py``."""

STATES = ("idle", "busy")
STAGES = ("start", "write", "back")
MEDIAN, TAIL = 50, 99


def percentile(values: Iterable[float], which: int) -> float:
    """Return a percentile: the value below which ``which`` percent of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * which // 100)]


def all_waits(rounds: list[Round], way: str, state: str, what: str = "all") -> list[float]:
    """Return the samples of all rounds, in seconds."""
    return [value for each in rounds for value in each["waits"][way][state][what]]


def ratios(rounds: list[Round], way: str, which: int) -> list[float]:
    """Return, for each round, a percentile of the busy state divided by the same percentile of the idle state."""
    found = []
    for each in rounds:
        idle, busy = (percentile(each["waits"][way][state]["all"], which) for state in STATES)
        found.append(busy / idle)
    return found


def kept(rounds: list[Round], way: str) -> float:
    """Return the fraction of their turns that the computing dhagas still have while a dhaga writes."""
    parts: list[float] = []
    for each in rounds:
        alone = statistics.median(each["waits"]["nobody"]["busy"]["turns"])
        parts.append(statistics.median(each["waits"][way]["busy"]["turns"]) / alone)
    return statistics.median(parts)


def claims(rounds: list[Round]) -> list[Claim]:
    """Return the claims about the two published results."""
    what = f"{URGENT}, busy over idle: "
    return [
        Claim(f"{what}median", 1.5, False, ratios(rounds, URGENT, MEDIAN), published="flat"),
        Claim(f"{what}99th percentile", 3.0, False, ratios(rounds, URGENT, TAIL), published="flat"),
    ]


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds as text."""
    return f"{seconds * 1e3:.2f}" if seconds < 0.01 else f"{seconds * 1e3:.1f}"


def tables(rounds: list[Round]) -> list[Table]:
    """Return all tables."""
    found = [waits_table(rounds), stages_table(rounds), commits_table(rounds)]
    if rounds[0]["puts"] is not None:
        found.append(puts_table(rounds))
    return found


def waits_table(rounds: list[Round]) -> Table:
    """Return the table of the callers' waits."""
    head = ["way", *(f"{state} {what}" for state in STATES for what in ("p50", "p99", "worst"))]
    lines = []
    for way in WAYS:
        cells = [way]
        for state in STATES:
            waits = all_waits(rounds, way, state)
            cells += [milliseconds(each) for each in (percentile(waits, MEDIAN), percentile(waits, TAIL), max(waits))]
        by = [f"{statistics.median(ratios(rounds, way, which)):.2f}" for which in (MEDIAN, TAIL)]
        lines.append([*cells, *by, f"{kept(rounds, way):.0%}"])
    caption = f"What the caller of one durable write of {RECORD} bytes waits, ms; busy over idle; what the others keep"
    return Table(caption, [*head, "p50 ratio", "p99 ratio", "others' turns"], lines)


def stages_table(rounds: list[Round]) -> Table:
    """Return the table of the stages of a wait, for the ways that record them."""
    head = ["way", *(f"{state} {stage}" for state in STATES for stage in STAGES)]
    lines = []
    for way in WAYS:
        if not all_waits(rounds, way, "idle", "start"):
            continue
        cells = [way]
        for state in STATES:
            stages = (all_waits(rounds, way, state, stage) for stage in STAGES)
            cells += ["/".join(milliseconds(percentile(waits, which)) for which in (MEDIAN, TAIL)) for waits in stages]
        lines.append(cells)
    return Table("Until the write begins, until it has ended, until the caller runs; p50/p99, ms", head, lines)


def median_of(rounds: list[Round], *keys: str) -> float:
    """Return the median over the rounds of one figure."""
    values: list[float] = []
    for each in rounds:
        value: Any = each
        for key in keys:
            value = value[key]
        values.append(value)
    return statistics.median(values)


def commits_table(rounds: list[Round]) -> Table:
    """Return the table of appends per second with and without group commit."""
    ways = rounds[0]["commits"]
    callers = list(ways["the log"])
    lines = [[way, *(f"{median_of(rounds, 'commits', way, count):,.0f}" for count in callers)] for way in ways]
    return Table(f"Durable appends of {RECORD} bytes a second, by how many dhagas append", ["way", *callers], lines)


def puts_table(rounds: list[Round]) -> Table:
    """Return the table of RocksDB's puts."""
    first = rounds[0]["puts"]
    lines = []
    for durability, ways in first.items():
        for way, by_callers in ways.items():
            cells = [durability, way]
            for callers in by_callers:
                rate = median_of(rounds, "puts", durability, way, callers)
                inline = median_of(rounds, "puts", durability, "inline", callers)
                cells += [f"{rate:,.0f}", f"{rate / inline:.2f}"]
            lines.append(cells)
    heads = (
        head for callers in first["buffered"]["inline"] for head in (f"{callers} at once, a second", "over inline")
    )
    return Table("RocksDB: puts of 100 bytes, by how many dhagas put", ["put", "way", *heads], lines)
