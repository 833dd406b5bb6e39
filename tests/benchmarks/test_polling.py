"""polling: what it calls an error is one, what it counts has been counted, and its callers wait for what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.polling import __main__ as polling
from benchmarks.polling import counters
from benchmarks.polling.callers import written
from benchmarks.polling.line_writers import SHARING
from benchmarks.polling.outputs import LIBRARIES, OUTPUTS
from benchmarks.polling.poller import RateReadings, judged, polled
from benchmarks.polling.report import claims
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.validation import problems
from dhaga.metrics import Reading
from tests.kit.scripts import ROOT

pytestmark = pytest.mark.once


# ---- polls


def test_a_poller_that_sleeps_too_long_overstates_the_rate_by_as_much() -> None:
    """100 things happen a second; it means to look each second, and comes after 1.1, 1.3, 1.1 and 1.3."""
    marks = [0.0, 1.1, 2.4, 3.5, 4.8]
    counts = [110, 130, 110, 130]
    readings = [Reading(count, count / 100) for count in counts]
    found = judged(RateReadings(1.0, 0, counts, readings, marks), [n / 100 for n in range(1, 1000)])
    assert found["true"] == pytest.approx(100)
    assert found["nominal"] == pytest.approx(20)
    assert found["nominal, worst poll"] == pytest.approx(30)
    assert [found["meter"], found["mean of rates"]] == pytest.approx([0, 0], abs=1e-9)
    assert found["slept"] == pytest.approx(1.2)


def test_the_mean_of_rates_gives_short_readings_too_much_weight() -> None:
    """A burst of 10 in the tenth of a second that the first reading takes, 10 more in the two seconds of the next."""
    readings = [Reading(10, 0.1), Reading(10, 2.0)]
    done = [0.01 * n for n in range(1, 11)] + [0.1 + 0.2 * n for n in range(1, 11)]
    found = judged(RateReadings(0.1, 0, [10, 10], readings, [0.0, 0.105, 2.105]), done)
    assert found["true"] == pytest.approx(20 / 2.105)
    assert abs(found["meter"]) < 1 < 400 < found["mean of rates"]


@pytest.mark.parametrize("schedulers", [1, 4])
@pytest.mark.parametrize("work", ["10 ms", "10 µs"])
def test_tasks_are_polled_and_every_count_is_there(work: str, schedulers: int) -> None:
    found = polled(work, schedulers, 0.005, 0.05)
    assert found["lost"] == 0 and found["true"] > 0 and found["slept"] >= 1


# ---- ways to count


@pytest.mark.parametrize("way", counters.WAYS)
@pytest.mark.parametrize("place", counters.PLACES)
def test_every_way_counts_everywhere(place: str, way: str) -> None:
    assert counters.rate(place, way, 0.005) > 0


# ---- one output


@pytest.mark.parametrize("way", SHARING)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_every_way_writes_every_line_to_every_output(output: str, library: str, way: str) -> None:
    found = written(library, output, way, 7, 0.01)
    assert found["rate"] > 0
    assert 0 < found["p50"] <= found["p99"] <= found["max"]


# ---- the report


def test_claims_are_judged_by_the_closest_polls_and_by_all_counts() -> None:
    errors = {0.2: [0.0, 0.0, 0.0], 0.01: [0.1, -0.7, 0.6]}
    polls = [
        {
            "work": "10 ms",
            "schedulers": 4,
            "interval": interval,
            "rounds": [{"meter": error, "lost": lost} for error, lost in zip(three, (0, 1, -1), strict=True)],
        }
        for interval, three in errors.items()
    ]
    error, lost, add = claims({"polls": polls, "add": [90.0, 99.0, 120.0]})
    assert (error.samples, error.value, error.reached, error.published) == ([0.1, 0.7, 0.6], 0.6, False, "14.48 %")
    assert "four schedulers" in error.what and "every 10 ms" in error.what
    assert not lost.reached and lost.samples == [4]
    assert add.reached and add.value == 99


# ---- the program


COMMAND = [sys.executable, "-m", "benchmarks.polling"]


@pytest.mark.slow
def test_a_quick_run_gives_a_whole_outcome(tmp_path: Path) -> None:
    command = [*COMMAND, "--quick", "--results", str(tmp_path / "new")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
    assert ended.returncode == 0, ended.stderr
    outcome = Outcome.load(tmp_path / "new" / "polling.json")
    assert problems(outcome, polling.draw(outcome)) == []
    assert [len(table.lines) for table in outcome.tables] == [5, 5, 5, 5, 4, 12, 12]
    assert len(outcome.claims) == 6 and outcome.claims[4].reached  # nothing is lost, however quick
    assert json.dumps(outcome.samples).count('"true"') == 20
