"""What an experiment gives: samples, the claims they bear out or not, and tables for people to read.

An experiment is a module `benchmarks/NAME/__main__.py` with the two functions of `Experiment`. All that a report
shows comes from the JSON file of its outcome, so that a report can be made again without measuring.
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
    """A bound on a figure, and the figure, measured once a round: their median counts."""

    what: str  # "4 x 32 dhagas over 32 threads, time"
    bound: float
    at_least: bool
    samples: Sequence[float]
    unit: str = "x"
    published: str = ""  # the figure in the experiment repeated here, where there is one

    @property
    def value(self) -> float:
        """Return the median over the rounds."""
        return statistics.median(self.samples)

    @property
    def reached(self) -> bool:
        """Compare the figures that are printed, so that no reader sees 1.10 fail against 1.1."""
        value, bound = rounded(self.value), rounded(self.bound)
        return value >= bound if self.at_least else value <= bound

    @property
    def target(self) -> str:
        """Return the bound in print."""
        return bounded(self.bound, self.at_least, self.unit)

    @property
    def ours(self) -> str:
        """Return the median in print."""
        return with_unit(printed(self.value), self.unit)

    @property
    def spread(self) -> str:
        """Return the least and the greatest of the rounds in print."""
        return spread(self.samples)

    @property
    def cells(self) -> list[str]:
        """Return its line in a table with the head `CLAIMS`."""
        ours = f"{self.ours} ({self.spread})" if self.spread else self.ours
        return [self.what, self.published or "–", self.target, ours, "yes" if self.reached else "**no**"]


CLAIMS = ("claim", "published", "target", "ours (rounds)", "reached")


@dataclass(frozen=True)
class Table:
    """A table for people: cells are text."""

    caption: str
    head: Sequence[str]
    lines: Sequence[Sequence[str]]


@dataclass
class Outcome:
    """What was measured, where and how."""

    name: str  # of the module
    title: str
    story: str  # what is compared, and what was published: two or three sentences
    where: dict[str, Any]  # machine.surroundings
    knobs: dict[str, Any]  # what can be set, as it was set
    samples: dict[str, Any]  # all of them, in a form that the module's `draw` knows
    claims: list[Claim]
    tables: list[Table]
    notes: list[str] = field(default_factory=list)  # what a reader must know to read the figures right

    def save(self, folder: Path = RESULTS) -> Path:
        """Write everything as NAME.json, at once: a full disk leaves the old one. Returns: where."""
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
    """Say how many targets of all are reached: 3 of 4; nothing where there are none."""
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    return f"{sum(claim.reached for claim in claims)} of {len(claims)}" if claims else ""


Tell = Callable[[str], None]
"""Takes a line that says what is measured now."""


class Experiment(Protocol):
    """What a module of an experiment has."""

    def measure(self, quick: bool, tell: Tell) -> Outcome:
        """Run all rows, each beside its rivals, in rounds; quick: the same at the smallest size, for its shape."""

    def draw(self, outcome: Outcome) -> list[Chart]:
        """Draw the outcome."""
