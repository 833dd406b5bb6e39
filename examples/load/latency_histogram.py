"""Latencies, kept as an HdrHistogram: any number of them in 185 KB, with percentiles to three digits."""

from __future__ import annotations

import math
from typing import Any

from examples._late import Late

hdrh: Any = Late("hdrh.histogram")

SMALLEST, GREATEST, DIGITS = 1, 3_600_000_000, 3
"""In µs: 1 µs to 1 h, in steps of 0.1 %. To note one takes 1.5 µs, to read a percentile a millisecond."""


class LatencyHistogram:
    """Durations in seconds, of which any percentile can be told."""

    def __init__(self) -> None:
        self.histogram: Any = hdrh.HdrHistogram(SMALLEST, GREATEST, DIGITS)
        self.total = 0.0

    def __len__(self) -> int:
        return int(self.histogram.get_total_count())

    def note(self, seconds: float) -> None:
        """Take one in; what is out of range counts as the smallest or the greatest."""
        self.total += seconds
        self.histogram.record_value(min(max(round(seconds * 1e6), SMALLEST), GREATEST))

    def add(self, other: LatencyHistogram) -> None:
        """Take others in."""
        self.total += other.total
        self.histogram.add(other.histogram)

    def value(self, what: str) -> float:
        """Return pNN, mean or max, in seconds; NaN if there are none."""
        if not len(self):
            return math.nan
        if what == "mean":  # the histogram's own is of its steps, and takes 40 ms
            return self.total / len(self)
        if what == "max":
            return float(self.histogram.get_max_value()) / 1e6
        return float(self.histogram.get_value_at_percentile(float(what[1:]))) / 1e6
