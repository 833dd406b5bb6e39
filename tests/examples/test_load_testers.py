"""The comparison of load testers: what is made of samples, and that all of it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.load_testers import __main__ as load_testers
from benchmarks.load_testers.charts import charts
from benchmarks.load_testers.report import (
    FLAT_OUT,
    Rows,
    claims,
    is_held,
    row_of,
    table_of_rates,
    table_of_users,
    users_held,
)
from benchmarks.load_testers.samples import Sample
from benchmarks.tables.outcome import Outcome

pytestmark = pytest.mark.once


def asked(rate: float, cost: float, p99: float = 0.02, failed: int = 0) -> Sample:
    """A sample of two seconds, in which a request costs so many seconds of CPU time."""
    return Sample(int(2 * rate), failed, 2.0, 2 * rate * cost, p99 / 2, p99, 30e3)


def rows() -> Rows:
    return {
        row_of(500): {"dhaga": [asked(490, 0.0005)], "HttpUser": [asked(490, 0.001)]},
        row_of(1000): {"dhaga": [asked(980, 0.0005)], "HttpUser": [asked(900, 0.001, 0.9)]},
        FLAT_OUT: {"dhaga": [asked(2000, 0.0005)], "HttpUser": [asked(1000, 0.001)]},
    }


def test_users_are_held_if_nobody_waits_or_fails() -> None:
    assert is_held(500, asked(490, 0.001))
    assert not is_held(500, asked(490, 0.001, p99=0.3))
    assert not is_held(500, asked(400, 0.001))
    assert not is_held(500, asked(490, 0.001, failed=1))
    assert not is_held(500, asked(490, 0.0019))


def test_users_of_a_core_are_counted_up_from_the_most_that_were_held() -> None:
    assert users_held(rows(), "dhaga", 0) == pytest.approx(0.9 / 0.0005)
    assert users_held(rows(), "HttpUser", 0) == pytest.approx(0.9 / 0.001)


def test_claims_are_ratios_of_those_that_are_alike() -> None:
    assert [claim.value for claim in claims(rows())] == pytest.approx([2, 2])
    alone = {row: {"dhaga": rivals["dhaga"]} for row, rivals in rows().items()}
    assert claims(alone) == []
    assert [len(table(alone).lines) for table in (table_of_users, table_of_rates)] == [2, 1]
    assert len(charts(alone)) == 3


def test_all_of_it_runs_without_locust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_testers, "_has_locust", lambda: False)
    outcome = Outcome.load(load_testers.measure(True, lambda text: None).save(tmp_path))
    assert {rival for rivals in outcome.samples.values() for rival in rivals} == {"dhaga", "dhaga light"}
    assert "Locust is not installed" in outcome.notes[-1]
    assert outcome.claims == []
    assert [chart.svg.startswith("<svg") for chart in load_testers.draw(outcome)] == [True] * 3
