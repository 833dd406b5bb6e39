"""What simulation finds, and how fast: ``python -m benchmarks.simulation PART [CASE…]``.

``published`` searches each release in ``cases.toml`` for its published defect, replays the seed that fails, and
searches a later release; ``rivals`` runs frontrun, interleave-test and a simulation on the same small models;
``speed`` measures seconds of CPU; ``table`` writes the results of the first and the last into the documentation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.machine import surroundings

from . import published as published_cases
from . import rivals, speed
from .environments import NoEnvironment
from .published import REPLAYS, SEEDS, SEEDS_WITHOUT, cases

RESULTS = Path(__file__).parents[1] / "results"

PAGES = Path(__file__).parents[2] / "docs/howto"

BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def write(name: str, found: dict[str, Any]) -> None:
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"surroundings": surroundings(), **found}, indent=2) + "\n")
    print(path)


def published(names: list[str]) -> None:
    """Measure the cases, and write the results; those of some cases replace theirs of an earlier measurement."""
    file = RESULTS / "simulation_published.json"
    results = json.loads(file.read_text())["cases"] if names else {}
    for case in cases(names):
        try:
            results[case.name] = case.measure()
        except NoEnvironment as error:
            results[case.name] = {"report": case.report, "skipped": str(error)}
        print(case.name, json.dumps(results[case.name]), flush=True)
    limits = {"seeds": SEEDS, "replays": REPLAYS, "seeds_of_later_releases": SEEDS_WITHOUT}
    write("simulation_published", {**limits, "cases": results})


TABLES: dict[str, tuple[Path, Callable[[Any], str]]] = {
    "simulation_published": (PAGES / "simulate-published.md", lambda found: published_cases.table(found["cases"])),
    "simulation_speed": (PAGES / "simulate.md", speed.table),
}
"""By the name of the results: the page that shows them, and the function that makes its table."""


def shown(name: str) -> str:
    """Return the table of results as it is to be shown."""
    return TABLES[name][1](json.loads((RESULTS / f"{name}.json").read_text()))


def write_tables() -> None:
    """Write each table between the markers of its page."""
    for name, (page, _) in TABLES.items():
        before, rest = page.read_text().split(BEGIN)
        page.write_text(f"{before}{BEGIN}\n\n{shown(name)}\n\n{END}{rest.split(END)[1]}")


def main() -> None:
    text = "What simulation finds, and how fast."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation", description=text)
    parser.add_argument("part", choices=["published", "rivals", "speed", "table"])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of published: only these")
    options = parser.parse_args()
    if options.part == "table":
        write_tables()
    elif options.part == "published":
        published(options.cases)
    else:
        write(f"simulation_{options.part}", {"rivals": rivals, "speed": speed}[options.part].measure())


if __name__ == "__main__":
    main()
