"""What simulation finds: ``python -m benchmarks.simulation published [CASE…]`` and ``… rivals``.

``published`` searches each release in ``cases.toml`` for its published defect, replays the seed that fails, and
searches a later release; ``rivals`` runs frontrun, interleave-test and a simulation on the same small models; ``table``
writes the results of the first into the documentation.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.machine import surroundings

from .environments import NoEnvironment
from .published import REPLAYS, SEEDS, SEEDS_WITHOUT, cases, table
from .rivals import measure as measure_rivals

RESULTS = Path(__file__).parents[1] / "results"


PAGE = Path(__file__).parents[2] / "docs/howto/simulate-published.md"

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def write(name: str, found: dict[str, Any]) -> None:
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"surroundings": surroundings(), **found}, indent=2) + "\n")
    print(path)


def published(names: list[str]) -> None:
    """Measure the cases, and write the results; those of some cases are only printed."""
    results = {}
    for case in cases(names):
        try:
            results[case.name] = case.measure()
        except NoEnvironment as error:
            results[case.name] = {"report": case.report, "skipped": str(error)}
        print(case.name, json.dumps(results[case.name]), flush=True)
    if not names:
        limits = {"seeds": SEEDS, "replays": REPLAYS, "seeds_of_later_releases": SEEDS_WITHOUT}
        write("simulation_published", {**limits, "cases": results})


def write_table() -> None:
    """Write the table between the markers of its page."""
    results = json.loads((RESULTS / "simulation_published.json").read_text())["cases"]
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description="What simulation finds.")
    parser.add_argument("part", choices=["published", "rivals", "table"])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of published: only these")
    options = parser.parse_args()
    if options.part == "table":
        write_table()
    elif options.part == "published":
        published(options.cases)
    else:
        write("simulation_rivals", measure_rivals())


if __name__ == "__main__":
    main()
