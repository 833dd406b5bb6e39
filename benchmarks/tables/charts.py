"""Charts as SVG, in one style: `drawn(caption, draw)` calls `draw(axes)`; `stacked` calls several."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = {
    "dhaga": "#d9480f",
    "threads": "#495057",
    "gevent": "#2b8a3e",
    "asyncio": "#1971c2",
    "uvloop": "#6741d9",
    "raw": "#adb5bd",
}
"""The colour of each rival, which is the same in all charts."""

SHADES = {"dhaga": ("#ffc078", "#f76707"), "threads": ("#ced4da", "#868e96")}
"""Paler shades of a rival's colour, the palest first, for several bars of one rival."""

OURS, THEIRS = 4.0, 1.3
"""Widths of lines. Dhaga's line is thick and drawn first, so that thin lines on top of it are visible."""


@dataclass(frozen=True)
class Chart:
    """A chart as SVG, with its caption."""

    caption: str
    svg: str


Draw = Callable[[Axes], object]


def drawn(caption: str, draw: Draw, width: float = 7.0, height: float = 3.6) -> Chart:
    """Draw one chart; width and height in inches."""
    return stacked(caption, [draw], width, height)


def stacked(caption: str, draws: Sequence[Draw], width: float = 7.0, height: float = 3.6) -> Chart:
    """Draw charts one below the other, with the same x-axis. Width and height of the whole are in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    all_axes = figure.subplots(len(draws), sharex=True, squeeze=False)[:, 0]
    for axes, draw in zip(all_axes, draws, strict=True):
        axes.grid(visible=True, alpha=0.25)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "dhaga", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return Chart(caption, svg[svg.index("<svg") :])
