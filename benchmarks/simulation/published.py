"""Published defects: how many seeds find each in the release that had it, and whether its seed fails each time."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .environments import ROOT, NoEnvironment, environment_of, version_here

HERE = Path(__file__).parent

SEEDS = 2000
"""Number of seeds within which a defect must be found."""

SEEDS_OF_MISSED = 500
"""Number of seeds for a defect that is known to be missed."""

REPLAYS = 100

SEEDS_WITHOUT = 500
"""Number of seeds for a later release. All must pass."""

REAL_SECONDS = 20.0


@dataclass
class Case:
    """A published defect: the packages that have it, the places where their lines are interrupted, and the error.

    ``fixed_python``: for a defect of the standard library, a later CPython without the defect. ``missed``: why the
    defect is not found.
    """

    name: str
    report: str
    error: str
    modules: list[str]
    requires: list[str] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    python: str = field(default_factory=version_here)
    fixed_python: str = ""
    preempt: str = "lines"
    missed: str = ""

    @property
    def title(self) -> str:
        """The first sentence of the program's docstring."""
        return (ast.get_docstring(ast.parse(self.program.read_text())) or "").splitlines()[0].rstrip(".")

    @property
    def program(self) -> Path:
        return HERE / "programs" / f"{self.name}.py"

    def order(self, **more: Any) -> dict[str, Any]:
        common = {"program": str(self.program), "modules": self.modules, "preempt": self.preempt}
        return {**common, "search": {"real_seconds": REAL_SECONDS}, **more}

    def run(self, requires: list[str], order: dict[str, Any], version: str = "") -> dict[str, Any]:
        """Run an order in the environment of a release. Raises: NoEnvironment."""
        python = environment_of(requires, version or self.python)
        # No frozen modules, because their lines (for example of importlib) could not be interrupted.
        unfrozen = ["-X", "frozen_modules=off"]
        command = [str(python), *unfrozen, "-m", "benchmarks.simulation.one_case", json.dumps(order)]
        ended = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False)
        if ended.returncode:
            raise NoEnvironment(f"{self.name}: {ended.stderr.strip()}")
        return json.loads(ended.stdout.splitlines()[-1])  # type: ignore[no-any-return]

    def measure(self) -> dict[str, Any]:
        """Search the release that has the defect, replay the failing seed, and search the later release."""
        result: dict[str, Any] = {"releases": self.requires or [f"CPython {self.python}"], "report": self.report}
        seeds = SEEDS_OF_MISSED if self.missed else SEEDS
        found = self.run(self.requires, self.order(seeds=seeds, strategy="mixed"))
        result["runs"], result["seconds"] = found["runs"], found["seconds"]
        result["error"] = found.get("kind", "")
        if result["error"] == self.error:
            result |= {key: found[key] for key in ("seed", "strategy", "events")}
            again = {key: found[key] for key in ("seed", "strategy", "kind", "hash")}
            result["replayed"] = self.run(self.requires, self.order(times=REPLAYS, **again))["same"]
            if self.fixed or self.fixed_python:
                order = self.order(seeds=SEEDS_WITHOUT, strategy="mixed")
                later = self.run(self.fixed, order, self.fixed_python)
                releases = self.fixed or [f"CPython {self.fixed_python}"]
                result["later"] = {"releases": releases, "runs": later["runs"], "error": later.get("kind", "")}
        elif result["error"]:
            result["text"] = found["report"][-2000:]
        return result


def cases(names: Iterable[str] = ()) -> list[Case]:
    """Return the cases of these names, or all. Raises: ValueError."""
    with open(HERE / "cases.toml", "rb") as file:
        table = tomllib.load(file)
    wanted = list(names) or list(table)
    if unknown := [name for name in wanted if name not in table]:
        raise ValueError(f"there is no case {', '.join(unknown)}; there are {', '.join(table)}")
    return [Case(name, **table[name]) for name in wanted]


HEAD = """| release | defect | error | seeds | seconds | replayed | later release |
|---|---|---|---|---|---|---|"""


def later_release(found: dict[str, Any]) -> str:
    """Return a text about how many seeds of a release without the defect pass."""
    if "later" not in found:
        return ""
    later = found["later"]
    name = later["releases"][0].replace("==", " ").split()[-1]
    return f"{name}: {later['error'] or 'passes'}, {later['runs']:,}"


def table(results: dict[str, Any]) -> str:
    """Return the results as Markdown: first what was found, then what was tried without success."""
    lines, missed = [HEAD], []
    for case in cases():
        found = results.get(case.name)
        if found is None or "runs" not in found:
            continue
        release = f"[{found['releases'][0].replace('==', ' ')}]({case.report})"
        if "replayed" in found:
            cells = [found["error"], f"{found['runs']:,}", f"{found['seconds']:g}", f"{found['replayed']} of {REPLAYS}"]
            cells.append(later_release(found))
            lines.append(f"| {release} | {case.title} | {' | '.join(cells)} |")
        else:
            missed.append(f"- {release}, {found['runs']:,} seeds: {case.missed or found['error'] or 'not found'}.")
    return "\n".join([*lines, "", "Not found:", "", *missed])
