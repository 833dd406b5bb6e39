"""`python -m benchmarks.seeing`: what it costs to be looked at, and what the report makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import greenlet
import pytest

from benchmarks import seeing
from benchmarks.tables.claims import earlier
from dhaga.debug import _watchdog

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.seeing", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_each_way_is_measured_printed_and_claimed(tmp_path: Path) -> None:
    done = run("--rounds", "2", "--count", "2000", "--json", str(tmp_path / "seeing.json"))
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    lines = done.stdout.splitlines()
    assert [line.partition("  ")[0] for line in lines[:-1]] == list(seeing.WAYS)
    assert lines[-1].startswith("targets, ")
    samples = json.loads((tmp_path / "seeing.json").read_text())["samples"]
    assert {name: len(each) for name, each in samples.items()} == dict.fromkeys(seeing.WAYS, 2)
    (outcome,) = earlier(tmp_path)
    watched, again, traced = outcome.claims
    assert (watched.samples, watched.at_least) == (seeing.percent(samples, "watch"), False)
    assert again.samples == seeing.percent(samples, "off again")
    assert (traced.samples, traced.unit) == (seeing.added(samples, "trace"), "µs")
    assert [line[0] for line in outcome.tables[0].lines] == list(seeing.WAYS)


def test_the_target_counts_the_median_of_the_rounds() -> None:
    samples = {name: [1.0, 1.0, 1.0] for name in seeing.WAYS}
    samples["watch"] = [1.0, 1.02, 9.0]
    samples["trace"] = [2.9, 3.1, 0.0]
    assert seeing._missed(samples) == ["watch"]
    samples["trace"] = [2.9, 3.1, 3.1]
    assert seeing._missed(samples) == ["watch", "trace"]


@pytest.mark.logs  # a busy machine holds the thread up for as long as this watchdog bears
def test_what_is_looked_at_is_really_looked_at_and_no_more_when_it_is_over() -> None:
    seen = {}
    for name, way in seeing.WAYS.items():
        with way():
            seen[name] = (_watchdog.watchdog is not None, greenlet.gettrace() is not None)
            assert seeing._yields(1000) > 0
        assert (_watchdog.watchdog, greenlet.gettrace()) == (None, None)
    assert seen == {
        "off": (False, False),
        "watch": (True, False),
        "trace": (False, True),
        "off again": (False, False),
        "shares": (False, True),
    }


def test_a_watchdogs_looks_count_as_often_as_it_looks_in_reality() -> None:
    # 0.5 µs a yield, and 0.6 beside one look in 1,000 yields: a look takes 100 µs, and there are 20 in a second
    assert seeing.watched(0.5, 0.6, 0.001) == pytest.approx(
        0.5 * (1 + 100e-6 * _watchdog.LOOKS_PER_THRESHOLD / seeing.THRESHOLD)
    )
    assert seeing.watched(0.5, 0.6, 0) == 0.6
