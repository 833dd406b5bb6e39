"""celery_pool: what it calls a rate is one, its claims follow from its samples, and a worker does its tasks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.celery_pool.brokers import serving
from benchmarks.celery_pool.report import Rows, claims
from benchmarks.celery_pool.samples import Sample, Work, between, sample
from benchmarks.celery_pool.workers import PoolOptions
from tests.scenarios.test_asyncio_libraries import address_of

pytestmark = pytest.mark.once

ONE = Sample(
    empty=1000.0,
    empty_cpu=0.001,
    kept=500.0,
    kept_cpu=0.002,
    waiting=960.0,
    waiting_cpu=0.001,
    idle=60e6,
    busy=70e6,
    in_flight=1000,
    seconds=1.0,
)
SLOWER = replace(ONE, empty=500.0, kept=500.0, waiting=900.0, busy=90e6)
ROWS: Rows = {"dhaga": [ONE, ONE], "threads": [SLOWER, SLOWER]}


def test_a_rate_leaves_out_what_came_before() -> None:
    times = [0.0, 5.0, *(10.0 + 0.1 * number for number in range(100))]
    assert between(times, 3) == pytest.approx(10)


def test_waves_of_tasks_that_wait_have_the_ideal_rate_if_each_takes_no_longer_than_it_waits() -> None:
    """Three waves of ten, which begin at different moments."""
    times = sorted(start + wave for start in (0.01 * number for number in range(10)) for wave in (1, 2, 3))
    assert between(times, 10) == pytest.approx(10)
    assert replace(ONE, waiting=between(times, 10), in_flight=10).of_ideal == pytest.approx(1)


def test_claims_compare_pools_within_a_round() -> None:
    found = {claim.what: (claim.samples, claim.reached) for claim in claims(ROWS)}
    assert found == {
        "empty tasks a second, no result: over threads": ([2.0, 2.0], True),
        "empty tasks a second, results kept: over threads": ([1.0, 1.0], False),
        "tasks that wait, 1,000 at once: of the ideal rate": ([96.0, 96.0], True),
        "1,000 tasks that wait: memory that they add, over threads": ([1 / 3, 1 / 3], True),
        "1,000 tasks that wait: memory of the whole worker, over threads": ([7 / 9, 7 / 9], False),
    }


def test_a_worker_with_dhagas_does_what_it_is_given(tmp_path: Path) -> None:
    if not shutil.which("redis-server"):
        address_of("DHAGA_REDIS", "redis://127.0.0.1:6379/0")
    with serving() as addresses:
        found = sample(PoolOptions("dhaga", 10), Work(empty=40, kept=20, waves=2, seconds=0.01), addresses, tmp_path)
    assert (found.in_flight, found.seconds) == (10, 0.01)
    assert found.waiting > 0 and found.empty > 0 and found.kept > 0
    assert found.busy > 1e6
