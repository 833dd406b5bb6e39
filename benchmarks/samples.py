"""Samples of measurements whose rivals take turns within each round."""

import statistics
from dataclasses import dataclass, field
from typing import Any

Sample = dict[str, float]
"""The figures of one measurement. The benchmark defines their keys."""


@dataclass
class Results:
    """All samples (row -> rival -> one per round), the failures, and a description of the machine."""

    where: dict[str, Any]
    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, row: str, rival: str, key: str) -> list[float]:
        """Return one figure of a rival, round by round."""
        return [sample[key] for sample in self.samples.get(row, {}).get(rival, [])]

    def median(self, row: str, rival: str, key: str) -> float:
        """Return the median of one figure of a rival; NaN if nothing was measured."""
        return statistics.median(self.of(row, rival, key) or [float("nan")])
