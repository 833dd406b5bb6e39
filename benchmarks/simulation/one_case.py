"""Search one program, or replay a seed of it, and print the result as JSON: run by ``published.py``."""

from __future__ import annotations

import ast
import collections.abc
import json
import runpy
import sys
import time
from functools import partial
from typing import Any

import dhaga.monkey
from dhaga._cli.simulate import start_again
from dhaga.simulation import Outcome, Settings, search
from dhaga.simulation._schedule.strategies import strategy_of
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one
from dhaga.simulation._standard.standard import replaced


def import_packages(program: str) -> None:
    """Import what a program imports, once for all runs. Each run forks from this state.

    From: a block in which names are replaced. Packages may store names: ``def cache(timer=time.monotonic)``.
    """
    for name in collections.abc.__all__:  # packages for Python before 3.10 use these names of collections
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    with open(program) as file:
        body: list[ast.stmt] = [
            node for node in ast.parse(file.read()).body if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
    exec(compile(ast.Module(body, []), program, "exec"), {})


def settings_of(order: dict[str, Any], strategy: str) -> Settings:
    return Settings(strategy_of(strategy), order["preempt"], order["modules"])


def shown(outcome: Outcome) -> dict[str, Any]:
    keys = ("seed", "strategy", "kind", "hash", "events", "switches", "report")
    return {key: getattr(outcome, key) for key in keys}


def find(order: dict[str, Any]) -> dict[str, Any]:
    """Run seeds until one fails."""
    began = time.perf_counter()
    settings = settings_of(order, order["strategy"])
    seeds = range(order["seeds"])
    found = search(partial(runpy.run_path, order["program"], run_name="__main__"), seeds, settings, **order["search"])
    result: dict[str, Any] = {"runs": found.runs, "seconds": round(time.perf_counter() - began, 2)}
    if found.failures:
        result |= shown(found.failures[0])
    return result


def replay(order: dict[str, Any]) -> dict[str, Any]:
    """Run a failing seed again and again. If it failed in the first run of a search, also run it without switches."""
    settings = settings_of(order, order["strategy"])
    program = partial(runpy.run_path, order["program"], run_name="__main__")
    times = order["times"]
    if order["strategy"] == "mixed":
        again = Order(order["seed"], switches="")
        failures = [run_one(program, settings, again, **order["search"]) for _ in range(times)]
    else:
        found = search(program, [order["seed"]] * times, settings, keep_going=True, **order["search"])
        failures = found.failures[found.runs - times :]  # leave out the first run of the search if it fails, too
    return {"same": sum((each.hash, each.kind) == (order["hash"], order["kind"]) for each in failures)}


if __name__ == "__main__":
    if sys.flags.hash_randomization:
        start_again()
    wanted = json.loads(sys.argv[1])
    dhaga.monkey.patch()
    with replaced():
        import_packages(wanted["program"])
        print(json.dumps(find(wanted) if "seeds" in wanted else replay(wanted)))
