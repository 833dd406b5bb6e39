"""Tables of the figures of runs. If a row has several runs, the tables show the median of each figure."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.rate_model.rows import ROWS
from benchmarks.rate_model.run_statistics import at, deviation, mean
from benchmarks.rate_model.runner import Figures
from benchmarks.tables.outcome import Table

Runs = Mapping[str, Mapping[str, Sequence[Figures]]]
"""For each row and way, the figures of its runs."""

NAMES = {row.name: row.words for row in ROWS}
"""For each row's name in the samples, its description for readers."""

Cell = Callable[[Figures], float]

MEGABYTE = 1e6


def _middle(runs: Sequence[Figures], cell: Cell) -> float:
    return statistics.median(map(cell, runs))


def _rate(runs: Sequence[Figures], kind: str) -> str:
    if not all(each[kind] for each in runs):
        return "–"  # the run is shorter than a window
    average = _middle(runs, lambda each: mean(each[kind]))
    return f"{average:,.0f} ± {_middle(runs, lambda each: deviation(each[kind])):,.1f}"


def _count(runs: Sequence[Figures], kind: str) -> str:
    return f"{_middle(runs, lambda each: float(each[kind])):,.0f}"


def _late(runs: Sequence[Figures], percent: float) -> str:
    return f"{_middle(runs, lambda each: at(each['added'], percent)) * 1e3:,.2f}"


def rate_table(runs: Runs) -> Table:
    """Return the table of the rates, and of the outcomes of the requests."""
    rates, counts = ("kept", "shifted", "completed"), ("arrivals", "answered", "hung", "overdue", "failed")
    lines = [
        [NAMES.get(row, row), way, *(_rate(each, kind) for kind in rates), *(_count(each, kind) for kind in counts)]
        for row, ways in runs.items()
        for way, each in ways.items()
    ]
    head = ["arrivals, upstreams", "way", *(f"{kind}/s" for kind in rates), *counts]
    return Table("Successes per second: average and deviation over windows; and where each request went", head, lines)


def latency_table(runs: Runs) -> Table:
    """Return the table of the added latency, and of the cost of a run."""
    percents = (0, 50, 90, 99, 99.9, 100)
    lines = [
        [NAMES.get(row, row), way, *(_late(each, percent) for percent in percents), *_costs(each)]
        for row, ways in runs.items()
        for way, each in ways.items()
    ]
    head = [
        "arrivals, upstreams",
        "way",
        *("least" if percent == 0 else "longest" if percent == 100 else f"p{percent}" for percent in percents),
        "peak MB",
        "added MB",
        "CPU µs each",
    ]
    return Table("Added latency in milliseconds; memory and CPU time of the whole process", head, lines)


def _costs(runs: Sequence[Figures]) -> list[str]:
    peak = _middle(runs, lambda each: each["memory"]["peak"] / MEGABYTE)
    added = _middle(runs, lambda each: (each["memory"]["peak"] - each["memory"]["before"]) / MEGABYTE)
    return [f"{peak:.1f}", f"{added:.1f}", f"{_middle(runs, lambda each: each['cpu'] * 1e6):.0f}"]


def parked_table(parked: Mapping[str, Mapping[str, float | None]]) -> Table:
    """Return the table of the memory that waiting threads, dhagas, greenlets and tasks add to a process."""
    counts = list(next(iter(parked.values())))
    lines = [[way, *(_megabytes(found[count]) for count in counts)] for way, found in parked.items()]
    return Table("MB that so many add to a process while they wait", ["", *(f"{int(n):,}" for n in counts)], lines)


def _megabytes(size: float | None) -> str:
    return "cannot be" if size is None else f"{size / MEGABYTE:.2f}"
