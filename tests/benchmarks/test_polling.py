"""polling: what it calls an error is one, what it counts has been counted, and its callers wait for what it says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dhaga
from benchmarks.polling import __main__ as polling
from benchmarks.polling import counters
from benchmarks.polling.callers import PACE, Callers, written
from benchmarks.polling.line_writers import SHARING, AcknowledgedWriter, LockedWriter, QueuedWriter
from benchmarks.polling.outputs import LIBRARIES, LINE, OUTPUTS
from benchmarks.polling.poller import RateReadings, judged, polled
from benchmarks.polling.report import claims
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.validation import problems
from dhaga.metrics import Reading
from dhaga.testing import virtual_clock
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


def test_what_a_meter_leaves_out_is_an_error_of_its_own() -> None:
    """It has seen nothing of the second half, as if counts were lost."""
    readings = [Reading(100, 1.0), Reading(0, 1.0)]
    found = judged(RateReadings(1.0, 0, [100, 0], readings, [0.0, 1.0, 2.0]), [n / 100 for n in range(1, 201)])
    assert (found["meter"], found["meter, worst poll"], found["nominal"]) == (-50, -100, -50)


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


class Slow:
    """An output that takes a second for each call."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []

    def write(self, data: bytes) -> None:
        dhaga.sleep(1)
        self.calls.append(data)


def waits_of(way: Callable[..., Any], callers: int) -> tuple[list[float], list[int]]:
    """Have callers write a line each at the same time. Returns: how long each waits, and lines by call."""
    with virtual_clock() as clock:
        slow, waits = Slow(), list[float]()
        shared = way(LIBRARIES["dhaga"], slow.write)

        def calls() -> None:
            say = shared.say()
            say(LINE)
            waits.append(clock())

        for each in [dhaga.spawn(calls) for _ in range(callers)]:
            each.join()
        shared.close()
    return sorted(waits), [call.count(b"\n") for call in slow.calls]


def test_under_the_lock_each_waits_for_all_before() -> None:
    assert waits_of(LockedWriter, 4) == ([1, 2, 3, 4], [1, 1, 1, 1])


def test_with_the_queue_nobody_waits() -> None:
    waits, calls = waits_of(QueuedWriter, 4)
    assert waits == [0, 0, 0, 0] and sum(calls) == 4


def test_an_acknowledged_line_waits_for_the_batches_up_to_its_own() -> None:
    waits, calls = waits_of(AcknowledgedWriter, 4)
    assert sum(calls) == 4 and len(calls) <= 2
    assert waits == [number + 1 for number, lines in enumerate(calls) for _ in range(lines)]


@pytest.mark.parametrize("way", SHARING)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("output", OUTPUTS)
def test_every_way_writes_every_line_to_every_output(output: str, library: str, way: str) -> None:
    found = written(library, output, way, 7, 0.01)
    assert found["rate"] > 0
    assert 0 < found["p50"] <= found["p99"] <= found["max"]


@pytest.mark.parametrize("way", SHARING)
@pytest.mark.parametrize("library", LIBRARIES)
def test_an_output_that_fails_ends_it_for_everybody(library: str, way: str) -> None:
    def write(data: bytes) -> None:
        raise OSError("No space left on device")

    def fails() -> None:
        callers = Callers(LIBRARIES[library], 20, 20 / PACE)
        callers.go_on(callers.flat_out, SHARING[way](callers.kit, write))

    with pytest.raises(OSError, match="No space left"):
        fails() if library == "threads" else dhaga.spawn(fails).result()


@pytest.mark.parametrize("way", SHARING)
def test_what_is_stopped_amid_its_calls_ends(way: str) -> None:
    """All are cancelled, the owner of a full queue, too: as a Ctrl-C does."""
    callers = Callers(LIBRARIES["dhaga"], 20, 60)
    stuck = threading.Event()

    def write(data: bytes) -> None:
        stuck.set()
        dhaga.sleep(60)

    with dhaga.Scheduler() as scheduler:
        calling = scheduler.spawn(lambda: callers.go_on(callers.flat_out, SHARING[way](callers.kit, write)))
        stuck.wait(20)
        while way == "queue" and not lines_full(scheduler):
            time.sleep(0.001)
    with pytest.raises(dhaga.Cancelled):
        calling.result()


def lines_full(scheduler: dhaga.Scheduler) -> bool:
    """Tell whether every caller waits for room in the queue."""
    return sum(each.reason == "queue.put" for each in scheduler._in_order()) == 20


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "0"], "must be a whole number from 1, not 0"),
        (["--rounds", "many"], "must be a whole number from 1, not many"),
        (["--results", "/dev/null/folder"], "Not a directory"),
    ],
)
def test_what_cannot_be_is_said_at_once(
    options: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["polling", *options])
    with pytest.raises(SystemExit) as exit:
        polling.main()
    assert exit.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_it_in_silence() -> None:
    with subprocess.Popen(COMMAND, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "round 1 of 3: polls, 20 rows\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
