"""The program as its users start it: each way, both kinds of upstreams, its files, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.rate_model import __main__ as rate_model
from benchmarks.rate_model.rows import QUICK, ROWS
from benchmarks.rate_model.run import Plan
from benchmarks.rate_model.runner import at_once

pytestmark = pytest.mark.once
HANGS = ["--latency", "20ms*9,30s", "--window", "100ms", "--tail", "5s"]


def test_a_run_prints_its_tables_and_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--name", "try", "--rate", "100", "--num-requests", "30", *HANGS, "--output", str(tmp_path / "new")]
    assert rate_model.main([*asked, "dhagas"]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["try-latency.svg", "try-rate.svg", "try.json"]
    kept = json.loads((tmp_path / "new" / "try.json").read_text())
    found = kept["figures"]
    assert (kept["way"], found["arrivals"], found["answered"], found["hung"]) == ("dhagas", 30, 27, 3)
    assert len(found["added"]) == len(kept["percents"])
    assert found["memory"]["peak"] >= found["memory"]["before"] > 0
    assert "100/s, 20ms*9,30s" in capsys.readouterr().out


def test_every_way_accounts_for_every_request() -> None:
    ways = ["threads", "dhagas", "asyncio"]
    plan = Plan(100, 20, [0.01] * 3 + [30.0], tail=5)
    for each in at_once(ways, [plan], window=0.1).values():
        assert (each[0]["answered"], each[0]["hung"], each[0]["overdue"]) == (15, 5, 0)


def test_the_rows_hold_every_rate_and_latency_that_was_published() -> None:
    modelled = {(row.rate, row.latency) for row in ROWS if not row.real}
    assert modelled == {(rate, each) for rate in (1000, 2000, 10_000) for each in ("20ms*10", "60ms*10", "20ms*9,30s")}
    assert all(row.plan(QUICK).count == row.rate * QUICK.fewer for row in ROWS)
