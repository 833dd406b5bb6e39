"""A histogram of latencies as lines of text, a bar each."""

from __future__ import annotations

import itertools
import math

from .latency_histogram import LatencyHistogram
from .quantities import percent, told

STEPS = (
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0,),
)
"""Of a decade: where bars begin. The finest that needs no more than `ROWS` bars is taken."""

ROWS = 12
WIDTH = 30  # of the longest bar, in characters
EIGHTHS = " ▏▎▍▌▋▊▉"
MARKS = ("p50", "p90", "p99")


def bars(found: LatencyHistogram) -> str:
    """Return a line for each range of latencies: its count, its share, and which percentiles lie in it."""
    counts = [
        (each.value_iterated_to, each.count_at_value_iterated_to) for each in found.histogram.get_recorded_iterator()
    ]
    if not counts:
        return ""
    edges = _edges(counts[0][0], counts[-1][0])
    ranges = list(itertools.pairwise(edges))
    sums = [sum(count for value, count in counts if low <= value < high) for low, high in ranges]
    marks = {what: round(found.value(what) * 1e6) for what in MARKS}
    labels = [f"{told(low / 1e6)} –" for low, _ in ranges], [told(high / 1e6) for _, high in ranges]
    widths = [max(map(len, column)) for column in labels]
    lines = []
    for number, ((low, high), count) in enumerate(zip(ranges, sums, strict=True)):
        place = f"{labels[0][number]:>{widths[0]}} {labels[1][number]:>{widths[1]}}"
        inside = " ".join(what for what, value in marks.items() if low <= value < high)
        share = percent(count / len(found))
        lines.append(f"{place}  {_bar(count / max(sums)):{WIDTH}} {count:9,} {share:>6}  {inside}".rstrip())
    return "\n".join(["latency of all requests:", *lines])


def _edges(least: float, most: float) -> list[float]:
    """Return where the ranges begin, and where the last one ends, in µs."""
    edges: list[float] = []
    for steps in STEPS:
        edges = _cut(steps, least, most)
        if len(edges) <= ROWS + 1:
            break
    return edges


def _cut(steps: tuple[float, ...], least: float, most: float) -> list[float]:
    """Return the steps of as many decades as there are between the two, from the last one before to the first after."""
    decades = range(math.floor(math.log10(least)), math.floor(math.log10(most)) + 2)
    edges = [step * 10.0**decade for decade in decades for step in steps]
    first = max(number for number, edge in enumerate(edges) if edge <= least)
    last = min(number for number, edge in enumerate(edges) if edge > most)
    return edges[first : last + 1]


def _bar(share: float) -> str:
    """Return a bar, in eighths of a character; what is not nothing is seen."""
    eighths = math.ceil(share * WIDTH * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
