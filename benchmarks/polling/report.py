"""The claims and tables of `benchmarks.polling`."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.polling import callers, counters, poller
from benchmarks.polling.outputs import OUTPUTS
from benchmarks.tables.outcome import Claim, Table

TARGET_ERROR = 0.5
TARGET_ADD = 100.0
PUBLISHED = {
    "10 ms": {1.0: "0", 0.5: "0.11", 0.2: "0.40", 0.05: "2.98", 0.01: "14.48"},
    "10 µs": {1.0: "0", 0.01: "5.91"},
}
"""Published errors in percent, by the length of a task and the interval. For short tasks, only two were published."""

Samples = dict[str, Any]


def schedulers(number: int) -> str:
    """Return a number of schedulers in words."""
    return {1: "one scheduler", 4: "four schedulers"}.get(number, f"{number} schedulers")


def every(interval: float) -> str:
    """Return an interval in words."""
    return f"{interval:g} s" if interval >= 1 else f"{interval * 1e3:g} ms"


def over_rounds(values: Iterable[float], digits: int = 2) -> str:
    """Return the median over the rounds and their range, as text."""
    sizes = [abs(value) for value in values]
    middle, least, most = (f"{value:.{digits}f}" for value in (statistics.median(sizes), min(sizes), max(sizes)))
    return middle if least == most else f"{middle} ({least}–{most})"


def column(rounds: Sequence[dict[str, float]], name: str) -> list[float]:
    """Return one figure of each round."""
    return [one[name] for one in rounds]


# ---- claims


def claims(samples: Samples) -> list[Claim]:
    """Return the claims, each with its target."""
    shortest = min(row["interval"] for row in samples["polls"])
    found = [_error_claim(row) for row in samples["polls"] if row["interval"] == shortest]
    lost = sum(abs(one) for row in samples["polls"] for one in column(row["rounds"], "lost"))
    found.append(Claim("counts that a Counter lost or told twice, in all rounds", 0, False, [lost], ""))
    found.append(Claim("Counter.add, uncontended", TARGET_ADD, False, samples["add"], "ns"))
    return found


def _error_claim(row: dict[str, Any]) -> Claim:
    what = f"RateMeter's error, read every {every(row['interval'])}: tasks of {row['work']}, "
    errors = [abs(error) for error in column(row["rounds"], "meter")]
    published = PUBLISHED[row["work"]].get(row["interval"])
    said = f"{published} %" if published else ""
    return Claim(what + schedulers(row["schedulers"]), TARGET_ERROR, False, errors, "%", said)


# ---- tables


def tables(samples: Samples) -> list[Table]:
    """Return all tables."""
    crowds = dict.fromkeys((row["work"], row["schedulers"]) for row in samples["polls"])
    return [
        *(_polls(samples["polls"], work, number) for work, number in crowds),
        _ways(samples["ways"]),
        *(_output(samples["outputs"], output) for output in OUTPUTS),
    ]


def _polls(rows: list[dict[str, Any]], work: str, number: int) -> Table:
    names = ("nominal", "mean of rates", "meter", "nominal, worst poll", "meter, worst poll")
    lines = [
        [
            every(row["interval"]),
            PUBLISHED[work].get(row["interval"], "–"),
            *(over_rounds(column(row["rounds"], name)) for name in names),
            over_rounds(column(row["rounds"], "slept")),
        ]
        for row in rows
        if (row["work"], row["schedulers"]) == (work, number)
    ]
    rate = statistics.median(
        true
        for row in rows
        if (row["work"], row["schedulers"]) == (work, number)
        for true in column(row["rounds"], "true")
    )
    return Table(
        f"{poller.TASKS} tasks of {work} on {schedulers(number)}, {rate:,.0f} done a second: error of the rate, %",
        (
            "poll every",
            "published",
            "nominal interval",
            "mean of rates",
            "RateMeter",
            "nominal, worst poll",
            "RateMeter, worst poll",
            "slept, x interval",
        ),
        lines,
    )


def _ways(rows: list[dict[str, Any]]) -> Table:
    lines = [["published", *(f"{ratio:g}" for ratio in counters.PUBLISHED.values())]]
    for place in counters.PLACES:
        rates = {row["way"]: row["rounds"] for row in rows if row["place"] == place}
        lines.append([place, *(_rate_and_ratio(rates[way], rates["batches"]) for way in counters.WAYS)])
    return Table("Counts per second, in millions, and beside them the share of what batches reach", _WAYS_HEAD, lines)


_WAYS_HEAD = ("where", "local batches", "Counter", "lock around an int")


def _rate_and_ratio(rates: list[float], batches: list[float]) -> str:
    ratios = [one / other for one, other in zip(rates, batches, strict=True)]
    return f"{statistics.median(rates) / 1e6:.3g} : {statistics.median(ratios):.2g}"


def _output(rows: list[dict[str, Any]], output: str) -> Table:
    lines = [
        [f"{row['callers']:,}", row["library"], row["way"], *_caller_cells(row["rounds"])]
        for row in rows
        if row["output"] == output
    ]
    head = ("callers", "on", "way", "lines/s", "p50, ms", "p99, ms", "longest, ms")
    return Table(
        f"One {output} that all write to: lines a second flat out; how long a call takes at {callers.PACE:,} a second",
        head,
        lines,
    )


def _caller_cells(rounds: Sequence[dict[str, float]]) -> list[str]:
    waits = [over_rounds([1e3 * one for one in column(rounds, name)], 3) for name in ("p50", "p99", "max")]
    return [f"{statistics.median(column(rounds, 'rate')):,.0f}", *waits]
