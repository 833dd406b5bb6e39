"""The charts of the pools."""

import statistics
from collections.abc import Callable

from matplotlib.axes import Axes

from benchmarks.celery_pool.report import Rows
from benchmarks.celery_pool.samples import Sample
from benchmarks.tables.charts import COLOURS, Chart, drawn

PREFORK = "#0b7285"


def _bars(axes: Axes, rows: Rows, unit: str, *figures: tuple[str, Callable[[Sample], float]]) -> None:
    """Draw a group of bars for each pool; the second figure of a pool is paler."""
    width = 0.8 / len(figures)
    for place, (pool, samples) in enumerate(rows.items()):
        for number, (_, figure) in enumerate(figures):
            value, left = statistics.median(map(figure, samples)), place + number * width
            axes.bar(left, value, width, color=COLOURS.get(pool, PREFORK), alpha=0.5 if number else 1.0)
            axes.annotate(f"{value:,.0f}", (left, value), ha="center", va="bottom")
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(rows))], list(rows))
    axes.set(ylabel=unit, xlabel=f"full colour: {figures[0][0]}; paler: {figures[1][0]}")


def charts(rows: Rows) -> list[Chart]:
    """Draw rates and memory."""
    empty = ("no result", lambda one: one.empty), ("result kept", lambda one: one.kept)
    memory = ("idle", lambda one: one.idle / 1e6), ("all tasks waiting", lambda one: one.busy / 1e6)
    waiting = ("reached", lambda one: one.waiting), ("ideal", lambda one: one.in_flight / one.seconds)
    return [
        drawn("Empty tasks a second", lambda axes: _bars(axes, rows, "tasks/s", *empty)),
        drawn("Tasks a second that wait", lambda axes: _bars(axes, rows, "tasks/s", *waiting)),
        drawn("Memory of a worker, with its processes", lambda axes: _bars(axes, rows, "MB", *memory)),
    ]
