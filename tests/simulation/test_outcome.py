"""Runs in a process of their own: settings, and what comes back."""

from __future__ import annotations

import sys
import threading

import pytest

from dhaga.simulation import PCT, Exhaustive, Settings
from dhaga.simulation._search.outcome import Order, run_here
from dhaga.simulation._search.search import run_one


def pass_on() -> None:
    threading.Thread(target=int, name="worker").start()


def test_a_run_here_and_one_in_a_process_of_its_own_are_equal() -> None:
    here = run_here(pass_on, Settings(), Order(3, keep_log=True))
    there = run_one(pass_on, Settings(), Order(3, keep_log=True))
    assert not here.failed and (here.hash, here.events, here.names) == (there.hash, there.events, there.names)
    assert here.names == ["main code", "worker"]
    assert [list(event) for event in here.log] == there.log


def test_a_failure_has_the_program_s_traceback_and_the_report() -> None:
    outcome = run_here(lambda: sys.exit("no"), Settings(), Order(0))
    assert outcome.kind == "SystemExit"
    lines = outcome.report.splitlines()
    assert lines[0].startswith("Traceback") and "test_outcome.py" in lines[1]
    assert "the simulation of seed 0 failed in main code: SystemExit: no" in lines


def test_bad_settings_are_an_error_before_a_run() -> None:
    Settings(strategy=Exhaustive(2)).check()
    with pytest.raises(ValueError, match="preempt is"):
        Settings(preempt="words").check()


def test_settings_for_a_length_keep_the_rest() -> None:
    assert Settings(strategy=PCT(2), preempt=None).for_length(7) == Settings(strategy=PCT(2, 7), preempt=None)
