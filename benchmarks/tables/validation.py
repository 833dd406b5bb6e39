"""Checks that an outcome is complete. CI requires this of every experiment, whatever the figures are."""

import math
from collections.abc import Iterator, Sequence

from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Claim, Outcome, Table


def _of_claim(claim: Claim) -> Iterator[str]:
    if not claim.samples:
        yield f"no samples: {claim.what}"
    if not all(map(math.isfinite, [claim.bound, *claim.samples])):
        yield f"not a number: {claim.what}"


def _of_table(table: Table) -> Iterator[str]:
    if not table.lines:
        yield f"an empty table: {table.caption}"
    if any(len(line) != len(table.head) for line in table.lines):
        yield f"lines longer or shorter than the head: {table.caption}"


def problems(outcome: Outcome, charts: Sequence[Chart]) -> list[str]:
    """Return the missing or wrong parts of an outcome."""
    needed = ("title", "story", "where", "knobs", "samples", "claims", "tables")
    found = [f"no {part}" for part in needed if not getattr(outcome, part)]
    found += [] if charts else ["no charts"]
    found += [problem for claim in outcome.claims for problem in _of_claim(claim)]
    return found + [problem for table in outcome.tables for problem in _of_table(table)]
