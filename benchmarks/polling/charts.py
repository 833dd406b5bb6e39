"""The charts of `benchmarks.polling`."""

import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from benchmarks.polling import counters, poller
from benchmarks.polling.callers import PACE
from benchmarks.polling.line_writers import SHARING
from benchmarks.polling.outputs import LIBRARIES
from benchmarks.polling.report import PUBLISHED, TARGET_ERROR, Samples, column, every, schedulers
from benchmarks.tables.charts import COLOURS, OURS, SHADES, THEIRS, Chart, drawn

FLOOR = 0.001
"""Errors below this percentage are drawn at this percentage."""

COLOUR = {"nominal": COLOURS["threads"], "meter": COLOURS["dhaga"]}
LABEL = {"nominal": "nominal interval", "meter": "RateMeter"}
OF_DHAGA, OF_THREADS = ((*SHADES[rival], COLOURS[rival]) for rival in ("dhaga", "threads"))
"""Three shades of each colour."""


def charts(samples: Samples) -> list[Chart]:
    """Draw all charts."""
    outputs = dict.fromkeys(row["output"] for row in samples["outputs"])
    return [
        *(_errors(samples["polls"], work) for work in poller.WORK),
        _ways(samples["ways"]),
        *(_waits(samples["outputs"], output) for output in outputs),
    ]


def _errors(rows: list[dict[str, Any]], work: str) -> Chart:
    mine = [row for row in rows if row["work"] == work]
    intervals = sorted({row["interval"] for row in mine})

    def draw(axes: Axes) -> None:
        for number, line in zip(sorted({row["schedulers"] for row in mine}), ("-", "--"), strict=True):
            for rate in COLOUR:
                _line(axes, [row for row in mine if row["schedulers"] == number], rate, line)
        known = {interval: float(PUBLISHED[work][interval]) for interval in intervals if interval in PUBLISHED[work]}
        if known:
            axes.plot(
                known.keys(), [max(FLOOR, error) for error in known.values()], "x", color="black", label="published"
            )
        axes.axhline(TARGET_ERROR, color=COLOURS["raw"], linewidth=1, label=f"target, {TARGET_ERROR} %")
        axes.set(xscale="log", yscale="log", xlabel="polled every", ylabel="error of the rate, %")
        axes.set_xticks(intervals, [every(interval) for interval in intervals], minor=False)
        axes.set_xticks([], minor=True)
        _legend(axes, 2)

    return drawn(
        f"Rates read by polling, {poller.TASKS} tasks of {work} (errors below {FLOOR} % are drawn there)", draw
    )


def _legend(axes: Axes, columns: int) -> None:
    """Draw the legend above the chart, where there are no lines."""
    axes.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False)


def _line(axes: Axes, rows: list[dict[str, Any]], rate: str, line: str) -> None:
    errors = [[abs(error) for error in column(row["rounds"], rate)] for row in rows]
    axes.plot(
        [row["interval"] for row in rows],
        [max(FLOOR, statistics.median(error)) for error in errors],
        line,
        marker="o",
        markersize=4,
        color=COLOUR[rate],
        linewidth=OURS if rate == "meter" else THEIRS,
        zorder=2.1 if rate == "meter" else 2.2,
        label=f"{LABEL[rate]}, {schedulers(rows[0]['schedulers'])}",
    )


def _bars(axes: Axes, groups: Sequence[str], bars: dict[str, tuple[str, list[float]]]) -> None:
    """Draw groups of adjacent bars. ``bars``: for each label, the colour, and one height for each group."""
    width = 0.8 / len(bars)
    for number, (label, (colour, heights)) in enumerate(bars.items()):
        places = [place + (number - (len(bars) - 1) / 2) * width for place in range(len(groups))]
        axes.bar(places, heights, width * 0.94, color=colour, label=label)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_yscale("log")
    _legend(axes, 3)


def _ways(rows: list[dict[str, Any]]) -> Chart:
    names = {"batches": "local batches", "Counter": "Counter", "lock": "lock around an int"}

    def draw(axes: Axes) -> None:
        bars = {
            names[way]: (colour, [_rate(rows, place, way) for place in counters.PLACES])
            for way, colour in zip(counters.WAYS, OF_DHAGA, strict=True)
        }
        _bars(axes, list(counters.PLACES), bars)
        axes.set_ylabel("counts per second")

    return drawn("Three ways to count", draw)


def _rate(rows: list[dict[str, Any]], place: str, way: str) -> float:
    rounds: list[float] = next(row["rounds"] for row in rows if (row["place"], row["way"]) == (place, way))
    return statistics.median(rounds)


def _waits(rows: list[dict[str, Any]], output: str) -> Chart:
    most = max(row["callers"] for row in rows)
    mine = [row for row in rows if row["output"] == output and row["callers"] == most]

    def draw(axes: Axes) -> None:
        bars = {}
        for library, colours in zip(LIBRARIES, (OF_DHAGA, OF_THREADS), strict=True):
            for name, colour in zip(("p50", "p99", "max"), colours, strict=True):
                bars[f"{library}, {'longest' if name == 'max' else name}"] = (colour, _figures(mine, library, name))
        _bars(axes, list(SHARING), bars)
        axes.set_ylabel("a call takes, ms")

    return drawn(f"{most:,} callers that write {PACE:,} lines a second to one {output}: how long a call takes", draw)


def _figures(rows: list[dict[str, Any]], library: str, name: str) -> list[float]:
    """Return the milliseconds of each way."""
    by_way = {row["way"]: column(row["rounds"], name) for row in rows if row["library"] == library}
    return [1e3 * statistics.median(by_way[way]) for way in SHARING]
