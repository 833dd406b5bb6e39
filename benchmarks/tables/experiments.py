"""The list of the experiments, and their recorded outcomes."""

import importlib
from pathlib import Path
from typing import cast

from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import RESULTS, Experiment, Outcome

EXPERIMENTS = {
    name: f"benchmarks.{name}.__main__"
    for name in ("backup", "rate_model", "pipeline", "polling", "load_testers", "file_io", "celery_pool")
}
"""The module of each experiment, in the order of the report."""


def experiment(module: str) -> Experiment:
    """Import an experiment's module."""
    return cast(Experiment, importlib.import_module(module))


class Unreadable(Exception):
    """Raised for a file that no experiment has written in this form."""


def _load(path: Path) -> Outcome:
    try:
        return Outcome.load(path)
    except (ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{path} is no outcome ({error}): measure it again, or remove it") from error


def measured(folder: Path = RESULTS) -> list[Outcome]:
    """Return the recorded outcomes, in the order of the experiments. Raises: Unreadable."""
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    return [_load(path) for path in paths if path.exists()]


def charts(outcome: Outcome) -> list[Chart]:
    """Draw the outcome of an experiment."""
    return experiment(EXPERIMENTS[outcome.name]).draw(outcome)
