"""Claims, how they are printed, and what an outcome must have."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.kernel.rows import ROWS
from benchmarks.kernel.runner import Results
from benchmarks.tables import claims
from benchmarks.tables.experiments import EXPERIMENTS
from benchmarks.tables.outcome import RESULTS, Claim, Table, score
from benchmarks.tables.validation import problems
from tests.benchmarks import made_badly, made_up

pytestmark = pytest.mark.once


def test_a_claim_is_judged_by_the_figures_that_are_printed() -> None:
    assert Claim("", 1.1, False, [1.104]).reached
    assert not Claim("", 1.1, False, [1.106]).reached
    assert Claim("", 2.0, True, [1.996]).reached
    assert not Claim("", 2.0, True, [1.994]).reached


def test_the_median_of_the_rounds_counts() -> None:
    claim = Claim("", 2.0, True, [9.0, 1.0, 2.0], "x gevent", "2.1x")
    assert claim.cells == ["", "2.1x", "≥ 2x gevent", "2.00x gevent (1.00–9.00)", "yes"]


def test_the_score_counts_the_targets_reached() -> None:
    assert score([made_up.outcome(), made_up.outcome()]) == "2 of 4"
    assert score([]) == ""


def test_a_whole_outcome_has_no_problems() -> None:
    outcome = made_up.outcome()
    assert problems(outcome, made_up.draw(outcome)) == []


def test_what_is_missing_or_wrong_is_named() -> None:
    outcome = made_badly.measure(True, print)
    outcome.knobs = {}
    outcome.tables.append(Table("Bare", ("one",), ()))
    assert problems(outcome, ()) == [
        "no knobs",
        "no charts",
        "no samples: never measured",
        "not a number: nothing by nothing",
        "lines longer or shorter than the head: Askew",
        "an empty table: Bare",
    ]


# ---- the earlier benchmarks


def test_every_result_of_an_earlier_benchmark_is_read() -> None:
    read = {outcome.name: outcome for outcome in claims.earlier()}
    assert set(read) == set(claims.EARLIER)
    of_simulations = {"simulation_published", "simulation_rivals", "simulation_speed"}
    by_their_own = {"compat", "instructions", "leaving", "startup", "threading_mode", "young", *of_simulations}
    assert {path.stem for path in RESULTS.glob("*.json")} <= {*claims.EARLIER, *EXPERIMENTS, *by_their_own}
    assert all(outcome.claims or outcome.tables for outcome in read.values())
    assert all(claim.samples for outcome in read.values() for claim in outcome.claims)


def test_the_claims_of_the_kernel_are_those_of_its_table() -> None:
    results = Results.load_from(RESULTS / "kernel.json")
    kernel = next(outcome for outcome in claims.earlier() if outcome.name == "kernel")
    targets = [(row, target) for row in ROWS for target in row.targets]
    for claim, (row, target) in zip(kernel.claims, targets, strict=True):
        ratio = results.ratio(row, target)
        assert ratio is not None
        assert claim.value == pytest.approx(ratio, rel=0.02)  # of two rounds, 1 / median is not the median of 1 / x
        assert (claim.reached, claim.what) == (target.reached(ratio), row.title)


@pytest.mark.parametrize("name", ["http_client", "http_fetch", "tls", "aio", "pool", "swap"])
def test_the_claims_of_the_parts_are_the_ratios_in_their_files(name: str) -> None:
    import json

    found = json.loads((RESULTS / f"{name}.json").read_text())
    outcome = next(outcome for outcome in claims.earlier() if outcome.name == name)
    written = list(_numbers(found["rows"] if name == "aio" else found["ratios"]))
    assert outcome.claims
    for claim in outcome.claims:
        assert any(statistics.median(claim.samples) == pytest.approx(ratio) for ratio in written)


def _numbers(found: object) -> list[float]:
    if isinstance(found, dict):
        return [number for key, each in found.items() if key != "samples" for number in _numbers(each)]
    return [found] if isinstance(found, float) else []
