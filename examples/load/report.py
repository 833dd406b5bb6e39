"""What is told at the end: for people, and as JSON."""

from __future__ import annotations

import math
from typing import Any

from .latency_bars import bars
from .latency_histogram import LatencyHistogram
from .quantities import percent, told
from .rate_search import RateSearch
from .statistics import Figures, Statistics, Tally

SHOWN = ("mean", "p50", "p90", "p99", "p99.9", "max")
COLUMNS = 80  # of most terminals
KINDS = 10  # of failures; the JSON holds all
BUSY = 0.9
"""From this share of a CPU on the tester itself is likely to be what is slow."""

LATE = 0.010  # seconds at the 99th percentile by which the tester itself may begin runs late


def summary(book: Statistics, heading: str) -> str:
    """Return what there is to tell of a test."""
    figures = book.figures()
    parts = [heading, runs(figures), table(book, figures), bars(figures.latencies), failures(book), *warnings(figures)]
    return "\n\n".join(part for part in parts if part)


def runs(figures: Figures) -> str:
    """Tell of each run what became of it."""
    book = figures.book
    counts = {
        "under way before": book.carried,
        "due": book.due.total,
        "passed": book.passed.total,
        "failed": book.failed.total,
        "dropped": book.dropped.total,
        "cut off": book.cut.total,
        "under way": book.under_way,
    }
    told_of = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count or what in ("due", "failed"))
    errors = "" if math.isnan(figures.errors) else f" ({percent(figures.errors)} errors)"
    return f"runs: {told_of}{errors}\nrate: {figures.rate:,.1f} runs ended a second, {figures.asked:,.1f} were due"


def table(book: Statistics, figures: Figures) -> str:
    """Set out the latencies, a line a name."""
    if not book.tallies:
        return ""
    lines = [["requests", "count", "failed", *SHOWN]]
    lines += [[name, *cells(tally)] for name, tally in sorted(book.tallies.items())]
    if len(book.tallies) > 1:
        count, failed = (sum(getattr(t, key).total for t in book.requests) for key in ("done", "failed"))
        lines.append(["all", f"{count:,}", f"{failed:,}", *(told(figures.latency(what)) for what in SHOWN)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) <= COLUMNS else " "
    return "\n".join(
        gap.join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def cells(tally: Tally) -> list[str]:
    return [
        f"{tally.done.total:,}",
        f"{tally.failed.total:,}",
        *(told(tally.latencies.value(what)) for what in SHOWN),
    ]


def failures(book: Statistics) -> str:
    """Count the runs that failed by what for."""
    lines = [f"{count:9,} x {what}" for what, count in book.failures.most_common(KINDS)]
    more = len(book.failures) - KINDS
    return "\n".join(["failures:", *lines, *([f"          … {more} kinds more"] if more > 0 else [])] if lines else [])


def warnings(figures: Figures) -> list[str]:
    """Say where it is the tester that may have been slow."""
    found = []
    late = figures.book.lateness.value("p99")
    if figures.busy > BUSY:
        found.append(
            f"warning: the tester took {percent(figures.busy)} of a CPU; latencies may be its own, and more rate "
            "needs another process"
        )
    if late > LATE:
        found.append(f"warning: the tester began runs up to {told(late)} late (p99), which is in the latencies")
    return found


# ---- the highest rate


def findings(finder: RateSearch) -> str:
    """Return what was found: the last step that passed, and the first that failed."""
    lines = [f"{finder.load.url}: the highest rate with {' and '.join(map(str, finder.bounds))}", ""]
    if finder.passed is None:
        lines.append("none: not even the lowest rate that was tried holds that" if finder.failed else "none yet")
    else:
        lines += [f"found: {finder.passed.rate:,.4g} runs a second", "", f"  {finder.passed}"]
    if finder.failed is not None:
        lines.append(f"  {finder.failed}")
        if finder.failed.figures.busy > BUSY:
            lines.append(
                f"warning: there the tester took {percent(finder.failed.figures.busy)} of a CPU: it may be the limit"
            )
    return "\n".join(lines)


def findings_as_json(finder: RateSearch) -> dict[str, Any]:
    """Return all steps, and what was found."""
    return {
        "bounds": list(map(str, finder.bounds)),
        "found": finder.passed and finder.passed.rate,
        "first failing": finder.failed and finder.failed.rate,
        "steps": [
            {"wanted": step.rate, "passed": step.passed, "broken": list(step.broken), **as_json(step.figures.book)}
            for step in finder.steps
        ],
    }


# ---- JSON


def as_json(book: Statistics) -> dict[str, Any]:
    """Return all there is to tell. Latencies are in seconds."""
    figures = book.figures()
    return {
        "seconds": figures.seconds,
        "rate": figures.rate,
        "asked": figures.asked,
        "errors": known(figures.errors),
        "runs": {key: getattr(book, key).total for key in ("due", "dropped", "passed", "failed", "cut")}
        | {"carried": book.carried, "under way": book.under_way},
        "latency": latencies(figures.latencies),
        "lateness": latencies(book.lateness),
        "requests": {name: requests(tally) for name, tally in sorted(book.tallies.items())},
        "failures": dict(book.failures.most_common()),
        "tester": {"cpu seconds": book.cpu, "busy": figures.busy},
    }


def requests(tally: Tally) -> dict[str, Any]:
    return {
        "count": tally.done.total,
        "failed": tally.failed.total,
        "statuses": dict(tally.statuses),
        "latency": latencies(tally.latencies),
    }


def latencies(found: LatencyHistogram) -> dict[str, float | None]:
    return {what: known(found.value(what)) for what in ("p0", *SHOWN[:1], "p50", "p75", "p90", "p95", *SHOWN[3:])}


def known(figure: float) -> float | None:
    """Return a figure, or None: JSON has no NaN."""
    return None if math.isnan(figure) else figure
