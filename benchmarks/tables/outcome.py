"""The outcome of an experiment: samples, claims, which the samples confirm or not, and tables for readers.

An experiment is a module `benchmarks/NAME/__main__.py` with the two functions of `Experiment`. A report shows only data
from the JSON file of an outcome, so it can be made again without a measurement.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.tables.charts import Chart
from benchmarks.tables.number_format import bounded, printed, rounded, spread, with_unit

RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Claim:
    """A bound on a figure, and the figure in each round. The median over the rounds is compared with the bound."""

    what: str  # "4 x 32 dhagas over 32 threads, time"
    bound: float
    at_least: bool
    samples: Sequence[float]
    unit: str = "x"
    published: str = ""  # the published figure, if there is one

    @property
    def value(self) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.samples)

    @property
    def reached(self) -> bool:
        """Compare the figures in their printed form, so that no reader sees 1.10 miss a target of 1.1."""
        value, bound = rounded(self.value), rounded(self.bound)
        return value >= bound if self.at_least else value <= bound

    @property
    def target(self) -> str:
        """Return the bound as text."""
        return bounded(self.bound, self.at_least, self.unit)

    @property
    def ours(self) -> str:
        """Return the median as text."""
        return with_unit(printed(self.value), self.unit)

    @property
    def spread(self) -> str:
        """Return the least and the greatest figure of the rounds as text."""
        return spread(self.samples)

    @property
    def cells(self) -> list[str]:
        """Return the claim's line in a table with the head `CLAIMS`."""
        ours = f"{self.ours} ({self.spread})" if self.spread else self.ours
        return [self.what, self.published or "–", self.target, ours, "yes" if self.reached else "**no**"]


CLAIMS = ("claim", "published", "target", "ours (rounds)", "reached")


@dataclass(frozen=True)
class Table:
    """A table for readers; its cells are text."""

    caption: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass
class Outcome:
    """The results of a measurement, with the machine and the settings."""

    name: str  # of the module
    title: str
    story: str  # what is compared, and what was published: two or three sentences
    where: dict[str, Any]  # machine.surroundings
    knobs: dict[str, Any]  # the settings
    samples: dict[str, Any]  # all samples, in the form that the module's `draw` expects
    claims: list[Claim]
    tables: list[Table]
    notes: list[str] = field(default_factory=list)  # notes that a reader needs to understand the figures

    def save(self, folder: Path = RESULTS) -> Path:
        """Write everything to NAME.json, atomically: if the disk is full, the old file remains. Returns: the path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return fresh.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Outcome":
        """Read what `save` wrote."""
        found = json.loads(path.read_text())
        found["claims"] = [Claim(**claim) for claim in found["claims"]]
        found["tables"] = [Table(**table) for table in found["tables"]]
        return cls(**found)


def score(outcomes: Iterable[Outcome]) -> str:
    """Return how many targets are reached, such as "3 of 4"; an empty text if there are no targets."""
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    return f"{sum(claim.reached for claim in claims)} of {len(claims)}" if claims else ""


Tell = Callable[[str], None]
"""A function that gets a line about the current measurement."""


class Experiment(Protocol):
    """The functions of an experiment's module."""

    def measure(self, quick: bool, tell: Tell) -> Outcome:
        """Run all rows and rivals in rounds; with ``quick``, at the smallest size, only to check the form."""

    def draw(self, outcome: Outcome) -> list[Chart]:
        """Draw the outcome."""
