"""The table of the figures, each with its ratio to OS threads. The page "From threading mode" shows it, too."""

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.markdown import table
from benchmarks.tables.outcome import RESULTS

HEAD = ("program", "on", "waits/s", "CPU µs a wait", "memory, MB")
QUANTITIES = ("rate", "cpu", "memory")
Row = dict[str, Any]


def shown(rows: Iterable[Row]) -> str:
    """Return rows as a table, with the ratio to the first row of the same program in brackets."""
    firsts: dict[str, Row] = {}
    lines = []
    for row in rows:
        first = firsts.setdefault(row["row"], row)
        lines.append((row["row"], row["way"], *(cell(row[key], first[key], row is first) for key in QUANTITIES)))
    return table(HEAD, lines)


def cell(value: float, first: float, is_first: bool) -> str:
    return f"{value:,.0f}" if is_first else f"{value:,.0f} ({value / (first or math.nan):.2f}x)"


def celery_rows(folder: Path) -> Iterator[Row]:
    """Yield the rows of the benchmark of Celery's pools, for tasks that all wait at once."""
    samples = json.loads((folder / "celery_pool.json").read_text())["samples"]
    for pool in ("threads", "dhaga"):
        waits, cpu, memory = (
            statistics.median(each[key] for each in samples[pool]) for key in ("waiting", "waiting_cpu", "busy")
        )
        yield {"row": "Celery", "way": f"-P {pool}", "rate": waits, "cpu": 1e6 * cpu, "memory": memory / 1e6}


def page(folder: Path = RESULTS) -> str:
    """Return the page's table of the recorded figures."""
    rows: list[Row] = json.loads((folder / "threading_mode.json").read_text())["rows"]
    return shown([*rows, *celery_rows(folder)])
