"""Measure one experiment, in this process: `python -m benchmarks.tables.child MODULE FOLDER`.

A new process has no state of earlier experiments, and all processes that it starts are in its process group.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.tables.experiments import experiment
from benchmarks.tables.outcome import Experiment, Outcome
from benchmarks.tables.validation import problems


def _checked(found: Experiment, outcome: Outcome) -> list[str]:
    """Return the problems of an outcome after it was saved and loaded, because the report loads it from a file."""
    with TemporaryDirectory() as folder:
        again = Outcome.load(outcome.save(Path(folder)))
    return problems(again, found.draw(again))


def _measure(module: str, folder: Path, quick: bool) -> str:
    """Measure an experiment, and write its JSON if it has no problems. Returns: the problems."""
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    found = experiment(module)
    outcome = found.measure(quick, tell)
    if wrong := _checked(found, outcome):
        return f"{module}: {'; '.join(wrong)}"
    outcome.save(folder)
    return ""


def main() -> None:
    """Measure; exit status 1 if the outcome is incomplete."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables.child", description=__doc__)
    parser.add_argument("module", help="such as benchmarks.backup")
    parser.add_argument("folder", type=Path, help="where its JSON goes")
    parser.add_argument("--quick", action="store_true", help="the smallest size")
    options = parser.parse_args()
    try:
        sys.exit(_measure(options.module, options.folder, options.quick) or None)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
