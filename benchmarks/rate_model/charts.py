"""The two charts of a plan, the rate over time and the added latency, each with a line for each way."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from benchmarks.rate_model.run_statistics import FINER, PERCENTS
from benchmarks.rate_model.runner import Figures
from benchmarks.tables.charts import COLOURS, OURS, THEIRS, Chart, drawn

LEAST = 1e-5  # seconds; smaller latencies are drawn at this value
WIDTHS = {"dhagas": OURS, "gevent": THEIRS, "asyncio": THEIRS, "threads": THEIRS}
"""Line widths in the order of drawing. The widest line is drawn first, so that all overlapping lines are visible."""

STYLES = {"gevent": (0, (5, 3)), "asyncio": (0, (2, 3))}
"""Dash patterns of lines that overlap."""

Drawn = list[tuple[Figures, dict[str, Any]]]
"""The figures of each way, and the style of its line."""


def _lines(figures: Mapping[str, Figures]) -> Drawn:
    return [
        (
            figures[way],
            {"label": way, "linewidth": width, "color": COLOURS.get(way, COLOURS["dhaga"])}
            | ({"linestyle": STYLES[way]} if way in STYLES else {}),
        )
        for way, width in WIDTHS.items()
        if way in figures
    ]


def rate_chart(caption: str, figures: Mapping[str, Figures], rate: float, window: float) -> Chart:
    """Draw the answers per second over the time at which they came, in steps of a tenth of a window."""

    def draw(axes: Axes) -> None:
        axes.axhline(rate, color=COLOURS["raw"], linestyle=":", label="arrivals")
        for found, look in _lines(figures):
            moments = [(number + 0.5) * window / FINER for number in range(len(found["line"]))]
            axes.plot(moments, found["line"], **look)
        highest = max((each for found in figures.values() for each in found["line"]), default=0.0)
        axes.set(xlabel="seconds from the first arrival", ylabel="answers per second")
        axes.set_ylim(0, 1.25 * max(rate, min(highest, 2 * rate)))
        axes.legend(loc="upper center", ncols=5)

    return drawn(caption, draw)


def latency_chart(caption: str, figures: Mapping[str, Figures]) -> Chart:
    """Draw the added latency by percentile, in milliseconds, on a log scale."""

    def draw(axes: Axes) -> None:
        for found, look in _lines(figures):
            if found["added"]:
                axes.plot(PERCENTS, [1e3 * max(LEAST, each) for each in found["added"]], **look)
        axes.set(xlabel="percentile", ylabel="added latency, ms", yscale="log")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)

    return drawn(caption, draw)
