"""The same seed, the same run: programs of many kinds, each in two processes, and on each Python.

Without preemption the events of most of them are the same on all Pythons: ``same_runs.json`` has their hashes, which
``python -m tests.simulation.test_determinism_programs`` writes again after a change of the events. With it they differ,
as a line of source is not the same number of points everywhere; and where the standard library itself waits elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dhaga.simulation import Outcome, Settings
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one
from dhaga.simulation._standard import standard
from tests.kit.races import RACES
from tests.kit.simulated_programs import PROGRAMS

RECORDED = Path(__file__).with_name("same_runs.json")

ALL = {program.__name__: program for program in [*PROGRAMS, *RACES.values()]}

SEED = 1

OF_OTHER_EVENTS = {"executor_map", "executor_as_completed"}
"""Their standard module waits at other places on some Pythons, or goes through a set of futures by their addresses."""


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


def run(program: Callable[[], None], preempt: str | None = "lines") -> Outcome:
    return run_one(program, Settings(preempt=preempt), Order(SEED))


def test_there_are_fifty_programs() -> None:
    assert len(ALL) >= 50


@pytest.mark.parametrize("name", ALL)
def test_two_processes_run_a_seed_in_the_same_way(name: str) -> None:
    first, second = run(ALL[name]), run(ALL[name])
    assert (first.hash, first.events, first.kind) == (second.hash, second.events, second.kind)
    assert first.events and (name in RACES or not first.failed), first.report


def test_all_pythons_run_a_seed_in_the_same_way_without_preemption() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert recorded.keys() == ALL.keys() - OF_OTHER_EVENTS
    assert {name: run(ALL[name], None).hash for name in recorded} == recorded


if __name__ == "__main__":
    with standard.replaced():
        hashes = {name: run(ALL[name], None).hash for name in ALL if name not in OF_OTHER_EVENTS}
    RECORDED.write_text(json.dumps(hashes, indent=1) + "\n")
