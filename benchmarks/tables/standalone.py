"""The output of an experiment that is run as a command: its progress, its outcome, and its files."""

import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.markdown import table
from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import Outcome


def tell(text: str) -> None:
    """Print a line about the current measurement."""
    print(f"  {text}", file=sys.stderr, flush=True)


def show_tables(outcome: Outcome) -> None:
    """Print the tables of an outcome."""
    for each in outcome.tables:
        print(f"\n{each.caption}\n\n{table(each.head, each.lines)}")


def show(outcome: Outcome) -> None:
    """Print the tables of an outcome, and the result of each claim."""
    show_tables(outcome)
    print()
    for claim in outcome.claims:
        print(f"{claim.what}: {claim.ours}, to reach {claim.target}: {'yes' if claim.reached else 'no'}")


def save(outcome: Outcome, charts: Iterable[Chart], folder: Path) -> None:
    """Write the JSON of an outcome, and its charts to the same folder."""
    path = outcome.save(folder)
    for number, chart in enumerate(charts, 1):
        path.with_name(f"{outcome.name}-{number}.svg").write_text(chart.svg)
