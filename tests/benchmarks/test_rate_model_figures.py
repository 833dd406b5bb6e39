"""What a run comes to: each request is accounted for, once, and late answers count as late."""

from __future__ import annotations

import pytest

from benchmarks.rate_model.claims import claims
from benchmarks.rate_model.rows import ROWS
from benchmarks.rate_model.run import SETTLED, Plan, Run
from benchmarks.rate_model.run_statistics import KEPT_WITHIN, at, deviation, figures
from benchmarks.rate_model.runner import WAYS

pytestmark = pytest.mark.once


def answered(plan: Plan, late: float = 0.001) -> Run:
    """A run in which whoever can be answered is, all equally late."""
    run = Run(plan)
    for number in range(plan.count):
        if not run.hung(number):
            run.done[number] = run.ideal(number) + late
    return run


def accounted(found: dict[str, int]) -> int:
    return found["answered"] + found["hung"] + found["overdue"] + found["failed"]


def test_a_rate_that_is_held_has_deviation_zero_in_all_windows() -> None:
    found = figures(answered(Plan(100, 400, [0.02])), window=1.0)
    assert (found["kept"], found["shifted"]) == ([100.0] * 4, [100.0] * 4)
    assert found["completed"] == [100.0] * 3  # the first second, in which answers begin, is left out
    assert deviation(found["kept"]) == 0


def test_of_ten_upstreams_one_that_hangs_takes_a_tenth() -> None:
    found = figures(answered(Plan(100, 200, [0.02] * 9 + [30.0])), window=1.0)
    assert (found["answered"], found["hung"], found["overdue"], found["failed"]) == (180, 20, 0, 0)
    assert found["kept"] == [90.0, 90.0]


def test_each_request_is_accounted_for_once() -> None:
    run = answered(Plan(100, 200, [0.02] * 9 + [30.0]))
    run.done[3] = run.done[103] = 0.0  # lost
    run.done[5] = run.end + 0.1  # after the end is never
    run.done[7] = 0.0
    run.failed[7] = "the upstream hung up"
    run.failed[9] = "no more files"  # one that would hang has failed
    found = figures(run, window=1.0)
    assert (found["answered"], found["hung"], found["overdue"], found["failed"]) == (176, 19, 3, 2)
    assert accounted(found) == found["arrivals"] == 200
    assert found["why failed"] == ["no more files", "the upstream hung up"]


def test_an_answer_is_late_from_the_moment_its_request_was_due() -> None:
    run = answered(Plan(100, 200, [0.02, 0.06]), late=0.0)
    run.done[6] += 0.5
    found = figures(run, window=1.0)
    assert at(found["added"], 100) == pytest.approx(0.5, abs=1e-6)
    assert at(found["added"], 99) == pytest.approx(0.0, abs=1e-6)


def test_an_answer_that_is_too_late_is_not_kept_and_one_that_never_comes_counts_as_late() -> None:
    run = answered(Plan(100, 200, [0.02]))
    run.done[50] = run.ideal(50) + KEPT_WITHIN * 1.01
    run.done[150] = 0.0
    found = figures(run, window=1.0)
    assert found["kept"] == [99.0, 99.0]
    assert at(found["added"], 100) == pytest.approx(run.end - run.ideal(150), abs=1e-6)


def test_a_proxy_that_falls_behind_does_not_keep_the_rate() -> None:
    run = Run(Plan(1000, 3000, [0.06]))  # 50 threads can make 833 calls of 60 ms in a second
    for number in range(3000):
        run.done[number] = run.ideal(number) + 0.00005 + number * (0.0012 - 0.001)
    found = figures(run, window=1.0)
    assert found["kept"] == [500.0, 0.0, 0.0]
    assert found["shifted"] == pytest.approx([833, 833, 833], abs=1)


def test_a_run_waits_for_the_last_answer_that_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(Plan(100, 50, [0.02] * 9 + [30.0]))
    monkeypatch.setattr("benchmarks.rate_model.run.monotonic", lambda: run.arrivals.start)
    assert run.last_answer() == pytest.approx(run.ideal(48))
    assert next(run.pauses()) == pytest.approx(run.ideal(48) + SETTLED - run.arrivals.start)
    long = Run(Plan(1, 100, [30.0]))  # the early ones are answered within the run, the last ones are not
    assert long.last_answer() == long.end
    assert Run(Plan(100, 50, [30.0])).last_answer() == 0.0


def samples_of(run: Run, **changes: object) -> dict[str, dict[str, list[dict[str, object]]]]:
    each = figures(run, window=1.0) | {"memory": {"peak": 30e6, "before": 29e6}, "cpu": 1e-4} | changes
    return {row.name: {way: [each] for way in WAYS} for row in ROWS}


def test_claims_are_reached_by_a_run_in_which_nothing_is_lost_or_late() -> None:
    reached = {claim.what: claim.reached for claim in claims(samples_of(answered(Plan(1000, 3000, [0.02]))))}
    assert {what for what, each in reached.items() if not each} == {
        "dhagas, 10,000/s to 10 upstreams of 20 ms: successes per second",  # there were 1,000
        "threads, 1,000/s to 9 upstreams of 20 ms, 1 that hangs: successes in the last second",  # did not collapse
    }


def test_one_lost_request_is_one_too_many() -> None:
    run = answered(Plan(1000, 3000, [0.02]))
    run.done[1500] = 0.0
    reached = {claim.what.partition(": ")[2]: claim.reached for claim in claims(samples_of(run))}
    assert not any(reached[what] for what in ("requests unaccounted for", "deviation of successes per second"))
    assert not reached["longest added latency"]
    assert reached["added latency, p99"]
