"""The claims about the runs: a figure of each round, and its bound."""

from collections.abc import Callable

from benchmarks.rate_model.rows import BUSY, CALM, FAILING, Row, Samples
from benchmarks.rate_model.run_statistics import at, deviation, mean
from benchmarks.rate_model.runner import Figures
from benchmarks.tables.outcome import Claim

MEGABYTE = 1e6
MILLISECOND = 1e-3

Cell = Callable[[Figures], float]


def claims(samples: Samples) -> list[Claim]:
    """Return the claims, each with its figures."""

    def at_most(bound: float, what: str, row: Row, cell: Cell, unit: str) -> Claim:
        return Claim(f"dhagas, {row.words}: {what}", bound, False, _each(samples, row, "dhagas", cell), unit)

    def holds(rate: float, row: Row) -> Claim:
        found = _each(samples, row, "dhagas", _rate)
        return Claim(f"dhagas, {row.words}: successes per second", rate, True, found, "/s")

    rows = (CALM, BUSY, FAILING)
    return [
        *(holds(CALM.rate, CALM), holds(BUSY.rate, BUSY), holds(0.9 * FAILING.rate, FAILING)),
        *(at_most(0, "deviation of successes per second", row, _scatter, "/s") for row in rows),
        *(at_most(0, "requests unaccounted for", row, _lost, "") for row in rows),
        at_most(5, "longest added latency", CALM, lambda each: at(each["added"], 100) / MILLISECOND, "ms"),
        at_most(5, "added latency, p99", BUSY, lambda each: at(each["added"], 99) / MILLISECOND, "ms"),
        at_most(100, "memory, peak", CALM, lambda each: each["memory"]["peak"] / MEGABYTE, "MB"),
        _collapse(samples),
    ]


def _collapse(samples: Samples) -> Claim:
    """Return the claim that the rate of the threads falls to the published rate."""
    what = f"threads, {FAILING.words}: successes in the last second"
    found = _each(samples, FAILING, "threads", lambda each: each["completed"][-1])
    return Claim(what, 0, False, found, "/s", published="collapse")


def _each(samples: Samples, row: Row, way: str, cell: Cell) -> list[float]:
    return [cell(figures) for figures in samples[row.name][way]]


def _rate(each: Figures) -> float:
    return mean(each["kept"])


def _scatter(each: Figures) -> float:
    return deviation(each["kept"])


def _lost(each: Figures) -> float:
    """Return the number of requests without an answer, except requests that wait for a hanging upstream."""
    return float(each["overdue"] + each["failed"])
