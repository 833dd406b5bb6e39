"""Searches: the corpus of classic races, the order of findings, and how a search ends."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dhaga.simulation import FIFO, Exhaustive, Findings, Outcome, Settings, search
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one
from dhaga.simulation._standard import standard
from tests.kit.races import RACES, lost_update, run_threads

SEEDS = 500

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


@pytest.mark.parametrize("name", RACES)
@pytest.mark.long("simulates until the race shows")
def test_each_classic_race_is_found_and_replayed(name: str) -> None:
    plain = run_one(RACES[name], Settings(strategy=FIFO(), preempt=None), Order(0))
    assert not plain.failed
    settings = Settings()
    findings = search(RACES[name], SEEDS, settings)
    failure = findings.failures[0]
    again = run_one(RACES[name], settings.for_length(findings.length), Order(failure.seed))
    assert (again.kind, again.hash, again.switches) == (failure.kind, failure.hash, failure.switches)


def test_there_are_twenty() -> None:
    assert len(RACES) == 20


def add_with_a_lock() -> None:
    total = 0
    lock = threading.Lock()

    def add() -> None:
        nonlocal total
        with lock:
            seen = total
            total = seen + 1

    run_threads(add, add)
    assert total == 2


def test_a_search_without_a_failure_is_complete() -> None:
    findings = search(add_with_a_lock, 30)
    assert findings.complete and not findings.failures
    assert findings.runs == 30
    assert 1 < len(findings.hashes) <= 31
    assert str(findings).startswith("30 runs, ")


def test_the_progress_tells_how_many_of_the_last_runs_were_new() -> None:
    findings = Findings()
    for number in range(150):
        findings.add(Outcome(number, hash=str(min(number, 120))))
        if number < 100:
            assert "new" not in str(findings)
    assert str(findings).startswith("150 runs, 121 of them different (71 of the last 100 new), 0 failed; ")


def test_each_run_begins_with_the_same_state() -> None:
    seen: list[int] = []

    def program() -> None:
        seen.append(1)
        assert len(seen) == 1

    assert search(program, 5).complete and seen == []


def test_the_failure_with_the_lowest_seed_is_the_first() -> None:
    def program() -> None:
        time.sleep(1)
        raise KeyError

    findings = search(program, [7, 8, 9], Settings(preempt=None), keep_going=True)
    assert [outcome.seed for outcome in findings.failures] == [7, 7, 8, 9]
    assert not search(program, 3).complete


def test_a_schedule_of_a_small_program_is_found_among_all() -> None:
    found = search(lost_update, settings=Settings(strategy=Exhaustive(1)))
    assert found.failures[0].kind == "AssertionError" and found.failures[0].switches.count(".") == 1
    all_pass = search(add_with_a_lock, settings=Settings(strategy=Exhaustive(1)))
    assert all_pass.complete and all_pass.runs > 10


def test_all_schedules_of_an_exhaustive_search_have_the_same_draws(tmp_path: Path) -> None:
    def program() -> None:
        add_with_a_lock()
        with open(tmp_path / "draws", "a") as file:
            print(random.random(), file=file)

    runs = search(program, settings=Settings(strategy=Exhaustive(1))).runs
    draws = (tmp_path / "draws").read_text().split()
    assert len(draws) == runs > 10 and len(set(draws)) == 1


def test_a_process_that_dies_or_hangs_is_a_failure() -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hang() -> None:
        while True:
            pass

    died = search(die, 1).failures[0]
    assert (died.kind, died.report) == ("ProcessDied", "the process of seed 0 ended by signal 9")
    hung = search(hang, 1, Settings(preempt=None), real_seconds=0.1).failures[0]
    assert hung.kind == "Hang" and "took longer than 0.1 s of real time" in hung.report


def test_a_ctrl_c_ends_a_search_with_what_it_has_found() -> None:
    def interrupt(findings: Findings) -> None:
        if findings.runs == 3:
            raise KeyboardInterrupt

    findings = search(add_with_a_lock, 50, jobs=1, progress=interrupt)
    assert findings.interrupted and not findings.complete and findings.runs == 3
    assert "3 runs (interrupted)" in str(findings)


@pytest.mark.parametrize("seeds", [0, -1])
def test_a_number_of_seeds_is_at_least_1(seeds: int) -> None:
    with pytest.raises(ValueError, match="seeds is a whole number from 1"):
        search(add_with_a_lock, seeds)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"real_seconds": 0}, "real_seconds is a number of seconds above 0, and not 0"),
        ({"real_seconds": float("nan")}, "real_seconds is a number of seconds above 0, and not nan"),
        ({"real_seconds": "1"}, "real_seconds is a number of seconds above 0, and not '1'"),
        ({"jobs": -1}, "jobs is a whole number from 1, and not -1"),
    ],
)
def test_bad_limits_are_refused_at_the_call(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        search(lost_update, 1, **options)
