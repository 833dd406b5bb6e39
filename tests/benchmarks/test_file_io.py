"""Durable writes beside busy tasks, `benchmarks.file_io`: the ways, what is made of the waits, and the program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dhaga
from benchmarks.file_io import __main__ as file_io
from benchmarks.file_io import disk, latency, report
from benchmarks.file_io.write_paths import (
    LOG,
    RECORD,
    RECORDS,
    SHARED,
    URGENT,
    WAYS,
    ways,
)
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.validation import problems
from examples.wal.recovery import verify

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


# ---- the ways


def test_each_way_makes_one_durable_write(tmp_path: Path) -> None:
    with ways(tmp_path) as found:
        assert tuple(way.name for way in found) == WAYS
        for way in found:
            dhaga.spawn(way.write, priority=way.priority).result()
    written = (tmp_path / "records").read_bytes()
    assert len(written) == RECORD * RECORDS
    assert written.startswith(written[:RECORD] * (len(WAYS) - 1)) and any(written[:RECORD])
    assert not any(written[RECORD * (len(WAYS) - 1) :])
    assert verify(tmp_path / "log").next == 2


def test_a_block_takes_its_samples_or_ends_with_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ways(tmp_path) as found:
        waits = latency.WaitTimes()
        latency.block(found[WAYS.index(SHARED)], False, 5, waits)
        assert [len(waits.all), len(waits.start), len(waits.back), waits.turns] == [5, 5, 5, []]
        for total, *stages in zip(waits.all, waits.start, waits.write, waits.back, strict=True):
            assert total == pytest.approx(sum(stages))
        monkeypatch.setattr(latency, "BUDGET", 0.0)
        waits = latency.WaitTimes()
        latency.block(found[WAYS.index(LOG)], False, 5, waits)
        assert [len(waits.all), waits.start] == [1, []]


# ---- figures


def made_up(busy: float, with_puts: bool = True) -> dict[str, Any]:
    """A round in which each write takes 1 to 100 ms, or so many times that among busy schedulers."""
    idle = [number / 1000 for number in range(1, 101)]
    state = {"idle": [*idle], "busy": [wait * busy for wait in idle]}
    waits = {
        way: {
            name: {"all": values, "start": values, "write": values, "back": values, "turns": [50.0] * (name == "busy")}
            for name, values in state.items()
        }
        for way in WAYS
    }
    waits["nobody"] = {"busy": {"all": [], "start": [], "write": [], "back": [], "turns": [100.0]}}
    rates = {"1": 1000.0, "10": 2000.0, "100": 3000.0}
    slower = {"1": 250.0, "100": 6000.0}
    each = {"inline": {"1": 1000.0, "100": 3000.0}, "shared offload": slower, "dedicated thread": slower}
    return {
        "waits": waits,
        "commits": {"the log": rates, "one write each": rates},
        "puts": {"buffered": each, "synced": each} if with_puts else None,
    }


def test_ratios_are_taken_within_a_round_and_claimed() -> None:
    rounds = [made_up(busy) for busy in (1.2, 4.0, 1.4)]
    median, tail = report.claims(rounds)
    assert list(median.samples) == pytest.approx([1.2, 4.0, 1.4])
    assert (round(median.value, 2), median.reached) == (1.4, True)
    assert (list(tail.samples), tail.bound, tail.reached) == (pytest.approx([1.2, 4.0, 1.4]), 3.0, True)
    assert not report.claims([made_up(1.6)])[0].reached
    assert report.kept(rounds, URGENT) == 0.5
    assert report.percentile(range(1, 101), 50) == 51
    assert report.percentile(range(1, 101), 99) == 100


# ---- the program


@pytest.mark.slow
def test_the_program_measures_all_and_leaves_nothing_but_what_it_is_asked_for(tmp_path: Path) -> None:
    results, files = tmp_path / "results", tmp_path / "files"
    files.mkdir()
    command = [sys.executable, "-m", "benchmarks.file_io", "--quick", "--folder", str(files), "--results", str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert list(files.iterdir()) == []
    outcome = Outcome.load(results / "file_io.json")
    assert problems(outcome, file_io.draw(outcome)) == []
    assert [len(claim.samples) for claim in outcome.claims] == [1, 1]
    waits = outcome.samples["waits, µs"]
    assert set(waits) == set(WAYS)
    assert all(waits[way][state] for way in WAYS for state in report.STATES)
    assert outcome.knobs["file system"] == disk.file_system(files)
    assert json.dumps(outcome.samples) in json.dumps(json.loads((results / "file_io.json").read_text()))
