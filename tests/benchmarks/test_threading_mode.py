"""The benchmark of threading mode, at its smallest: each way runs, and is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.threading_mode.__main__ import ways
from benchmarks.threading_mode.report import page
from tests.kit.scripts import ROOT

pytestmark = pytest.mark.once

for package in ("oslo_service", "dask", "flask_socketio", "simple_websocket", "gunicorn", "websocket"):
    pytest.importorskip(package)


@pytest.mark.process
@pytest.mark.long("starts each program on threads and on dhagas")
def test_all_ways_are_measured_one_beside_the_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.threading_mode", "--quick", "--json", str(tmp_path / "figures.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "figures.json").read_text())["rows"]
    assert [(row["row"], row["way"]) for row in rows] == [(way.row, way.name) for way in ways()]
    assert all(row["rate"] > 0 and row["memory"] > 1 and row["cpu"] >= 0 for row in rows)
    assert all(f"| {row['way']} " in done.stdout for row in rows)


def test_each_row_begins_on_threads() -> None:
    firsts = {way.row: way.name for way in reversed(ways())}
    assert all("thread" in name for name in firsts.values())


def test_the_page_shows_what_was_recorded() -> None:
    assert page() in (ROOT / "docs/start/threading-mode.md").read_text()
