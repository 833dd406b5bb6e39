"""Instructions per operation: what is compared with what, and that the rows run without valgrind, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from benchmarks import instructions
from benchmarks.instructions import NAMES, RECORDED, grown, lines

pytestmark = pytest.mark.once

BEFORE = {"pure": {"lock": 1000, "yield-100": 5000}}


def test_a_row_that_grows_beyond_the_tolerance_is_told() -> None:
    now = {"pure": {"lock": 1051, "yield-100": 5249}, "compiled": {"lock": 900}}
    assert grown(now, BEFORE, 5) == ["pure lock: 1,051 instructions, +5.1 % (recorded: 1,000)"]
    assert grown(now, BEFORE, 6) == []


def test_the_table_shows_the_change_where_there_is_a_record() -> None:
    counts = {"pure": dict.fromkeys(NAMES, 1100)}
    shown = {line.split()[0]: line for line in lines(counts, BEFORE)}
    assert "+10.0 %" in shown["lock"]
    assert "%" not in shown["lock-100"]


def test_what_is_recorded_has_all_rows() -> None:
    for counts in json.loads(RECORDED.read_text()).values():
        assert counts.keys() == instructions.MODES.keys()
        for rows in counts.values():
            assert set(rows) - set(instructions.REQUESTS) == set(NAMES)


def test_a_service_that_is_not_here_is_told() -> None:
    shown = {line.split()[0]: line for line in lines({"pure": dict.fromkeys(NAMES, 1100)}, BEFORE)}
    assert "not counted here" in shown["request-flask"]


def test_a_service_answers_the_clients_without_valgrind() -> None:
    command = [sys.executable, "-m", "benchmarks.instructions_requests", "hello"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_row_runs_in_two_children() -> None:
    command = [sys.executable, "-m", "benchmarks.instructions", "--rows"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    pids = json.loads(done.stdout)
    assert set(pids) == set(NAMES)
    assert len({pid for pair in pids.values() for pid in pair} - {os.getpid()}) == 2 * len(NAMES)
