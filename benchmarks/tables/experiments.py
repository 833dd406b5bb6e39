"""Which experiments there are, and what they have measured so far."""

import importlib
from pathlib import Path
from typing import cast

from benchmarks.tables.charts import Chart
from benchmarks.tables.outcome import RESULTS, Experiment, Outcome

EXPERIMENTS = {
    name: f"benchmarks.{name}.__main__"
    for name in ("backup", "rate_model", "pipeline", "polling", "load_testers", "file_io", "celery_pool")
}
"""The module of each, in the order of the report."""


def experiment(module: str) -> Experiment:
    """Import one."""
    return cast(Experiment, importlib.import_module(module))


class Unreadable(Exception):
    """Raised where a file is not what an experiment has written."""


def _load(path: Path) -> Outcome:
    try:
        return Outcome.load(path)
    except (ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{path} is no outcome ({error}): measure it again, or remove it") from error


def measured(folder: Path = RESULTS) -> list[Outcome]:
    """Read what is there, in their order. Raises: Unreadable."""
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    return [_load(path) for path in paths if path.exists()]


def charts(outcome: Outcome) -> list[Chart]:
    """Draw what one has measured."""
    return experiment(EXPERIMENTS[outcome.name]).draw(outcome)
