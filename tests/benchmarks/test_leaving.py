"""`python -m benchmarks.leaving`: what one of many that wait for the same thing costs when it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.leaving import __main__ as leaving

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def test_each_way_to_leave_is_measured_and_printed(tmp_path: Path) -> None:
    options = ["--counts", "10", "40", "--rounds", "1", "--rivals", "dhaga", "--ways", "offload"]
    command = [sys.executable, "-m", "benchmarks.leaving", *options, "--json", str(tmp_path / "leaving.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    found = json.loads((tmp_path / "leaving.json").read_text())
    rows = ["dhaga: offload, cancel", "dhaga: offload, timeout"]
    assert list(found["costs"]) == rows and all(line.startswith(tuple(rows)) for line in done.stdout.splitlines()[1:3])
    assert all(0 < cost < 100_000 for by_count in found["costs"].values() for cost in by_count.values())
    assert set(found["stalls"]) == {"dhaga, NORMAL", "dhaga, HIGH", "dhaga, LOOP"}


def test_the_rivals_are_measured_where_they_have_the_primitive() -> None:
    rows = leaving.rows(["dhaga", "gevent"])
    assert len(rows) == 3 * len(leaving.WAYS) - len(leaving.NOT_IN_GEVENT) == len(set(rows))


def test_a_cost_that_grows_with_the_number_of_those_that_wait_is_missed() -> None:
    stalls = {"dhaga, LOOP": {"longest": 9.0}}
    costs: dict[str, Any] = {
        "dhaga: lock, cancel": {"100": 9.0, "10000": 9.0, "100000": 20.0},
        "dhaga: event, cancel": {"100": 8.0, "10000": 120.0, "100000": 1513.0},
        "gevent: event, cancel": {"100": 8.0, "10000": 120.0, "100000": 1513.0},
    }
    assert leaving.missed({"costs": costs, "stalls": stalls}) == ["dhaga: event, cancel"]
    stalls["dhaga, LOOP"]["longest"] = 8800.0
    assert leaving.missed({"costs": costs, "stalls": stalls}) == ["dhaga: event, cancel", "stall, LOOP"]
