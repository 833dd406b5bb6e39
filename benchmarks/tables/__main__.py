"""Runs the experiments, writes results/NAME.json for each, and one report: `python -m benchmarks.tables [NAME …]`.

Each experiment runs in a new process. If one fails, the others still run.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.machine import BUILD, raise_file_limit
from benchmarks.markdown import table
from benchmarks.tables import overview, readme
from benchmarks.tables.charts import Chart
from benchmarks.tables.claims import COMMANDS, earlier
from benchmarks.tables.experiments import EXPERIMENTS, Unreadable, charts, measured
from benchmarks.tables.isolated_process import interruptible, run
from benchmarks.tables.outcome import CLAIMS, RESULTS, Outcome, score
from benchmarks.tables.provenance import sentence
from benchmarks.tables.report import Part, page
from benchmarks.tables.standalone import show_tables

QUICK = BUILD / "tables"
"""The folder of quick results. They have no meaning, so they must not overwrite real results."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(EXPERIMENTS)}")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="where JSON and report go (benchmarks/results)")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--quick", action="store_true", help="the smallest size, into build/tables: does all of it run?")
    way.add_argument("--report", action="store_true", help="measure nothing, make the report of the JSON files again")
    way.add_argument(
        "--readme", action="store_true", help="measure nothing, write tables and charts into the pages that show them"
    )
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in EXPERIMENTS]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(EXPERIMENTS)}")
    if options.names and (options.report or options.readme):
        parser.error("--report and --readme take all that is there: leave the names out")
    if options.readme and options.results:
        parser.error("the pages show benchmarks/results: leave --results out")
    options.results = options.results or (QUICK if options.quick else RESULTS)
    try:
        options.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"nothing can be written to {options.results}: {error.strerror}")
    return options


# ---- reporting


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(outcome: Outcome) -> None:
    """Print an outcome's machine, claims and tables."""
    print(f"\n== {outcome.title}\n\n{sentence([outcome])}\n")
    print(table(CLAIMS, (claim.cells for claim in outcome.claims)))
    show_tables(outcome)
    print("".join(f"\n- {note}" for note in outcome.notes), flush=True)


# ---- measuring and drawing


def _measure(names: Sequence[str], folder: Path, quick: bool) -> list[str]:
    """Run the experiments one after another. Returns: the experiments that failed."""
    failed = []
    for number, name in enumerate(names, 1):
        _say(f"== {name} ({number} of {len(names)})")
        began = time.monotonic()
        if run(EXPERIMENTS[name], folder, quick):
            failed.append(name)
            _say(f"== {name} FAILED after {time.monotonic() - began:.0f} s")
        else:
            _print(Outcome.load(folder / f"{name}.json"))
            _say(f"== {name} done after {time.monotonic() - began:.0f} s")
    return failed


def _charts(outcome: Outcome) -> list[Chart] | None:
    """Draw an outcome. Returns: None if this fails, for example for an outcome of an older version."""
    try:
        return charts(outcome)
    except Exception:
        traceback.print_exc()
        return None


def parts(folder: Path, draw: Callable[[Outcome], Sequence[Chart]]) -> tuple[list[Part], list[Part]]:
    """Return the experiments of the JSON files in the folder, and the other benchmarks."""
    drawn = [Part(each, draw(each), f"python -m benchmarks.tables {each.name}") for each in measured(folder)]
    return drawn, [Part(each, (), COMMANDS[each.name]) for each in earlier(folder)]


def _report(folder: Path) -> list[str]:
    """Write report.html from the JSON files in the folder. Returns: the experiments that could not be drawn."""
    failed = []

    def draw(outcome: Outcome) -> Sequence[Chart]:
        found = _charts(outcome)
        if found is None:
            failed.append(outcome.name)
        return found or ()

    drawn, others = parts(folder, draw)
    path = folder / "report.html"
    path.write_text(page(drawn, others, list(overview.works(folder))))
    _say(f"{path}: {score(part.outcome for part in drawn) or 'none'} of the experiments' targets reached")
    return failed


def _perform(options: argparse.Namespace) -> list[str]:
    """Run what the command line requests. Returns: the experiments that failed."""
    if options.readme:
        readme.write()
        return []
    failed = []
    if not options.report:
        raise_file_limit()
        failed = _measure(options.names or list(EXPERIMENTS), options.results, options.quick)
    return failed + _report(options.results)


def main() -> None:
    """Run what the command line requests; exit status 1 if an experiment failed, 130 if it was interrupted."""
    options = _arguments()
    try:
        with interruptible():
            failed = _perform(options)
    except KeyboardInterrupt:
        _say("interrupted")
        sys.exit(130)
    except (OSError, Unreadable) as error:
        sys.exit(str(error))
    if failed:
        sys.exit(f"FAILED: {', '.join(dict.fromkeys(failed))}")


if __name__ == "__main__":
    main()
