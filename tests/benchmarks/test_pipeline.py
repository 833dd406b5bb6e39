"""Servers that call a backend, `benchmarks.pipeline`: what they serve, what is made of the samples, and the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.machine import cpus
from benchmarks.pipeline import __main__ as pipeline
from benchmarks.pipeline import apps, report, samples, servers
from benchmarks.pipeline.backend import Backend, answering
from benchmarks.pipeline.samples import Effort, Samples
from benchmarks.pipeline.servers import DHAGAS, THREADS, serving
from benchmarks.tables.outcome import Outcome
from benchmarks.tables.validation import problems

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]


# ---- what is served


@pytest.fixture
def backend() -> Iterator[Backend]:
    with answering(2) as found:
        yield found


def test_server_that_serves_something_else_is_refused(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "PLAIN", b"another page")
    with pytest.raises(RuntimeError, match="serves something else"), serving(DHAGAS, backend):
        pass


# ---- what is measured


class Counted:
    """A backend, a server and a load of 10 pages, for which so many calls are made."""

    rival = "dhagas"
    port = 0

    def __init__(self, calls: int, errors: int = 0) -> None:
        self.counts = [5, 6 + calls]
        self.errors = errors

    def calls(self) -> int:
        return self.counts.pop(0)

    def cpu(self) -> float:
        return 0.0

    def ask(self, path: str) -> None:
        assert path == "call"

    def wrk(self, *options: Any) -> dict[str, float]:
        return {"requests": 10, "rate": 10.0, "errors": self.errors}


@pytest.mark.parametrize(
    ("page", "calls", "errors", "fault"),
    [
        ("call", 10, 0, None),
        ("call", 12, 0, None),  # the last ones of wrk, which it has not waited for
        ("call", 9, 0, "9 calls of the backend for 10 pages"),
        ("plain", 0, 0, None),
        ("plain", 1, 0, "1 calls of the backend for 10 pages"),
        ("call", 10, 2, "2 pages of 10 were not answered"),
    ],
)
def test_pages_are_counted_against_calls(
    page: Any, calls: int, errors: int, fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    both: Any = Counted(calls, errors)
    monkeypatch.setattr(samples.load, "wrk", both.wrk)
    if fault is None:
        assert samples.turn(both, page, both, Effort(), 0)["backend"] == 0.0
    else:
        with pytest.raises(RuntimeError, match=fault):
            samples.turn(both, page, both, Effort(), 0)


# ---- what is said of it


def load(rate: float) -> dict[str, float]:
    return {"rate": rate, "cpu": 1e6 / rate, "p50": 1.0, "p99": 2.0, "share": 1.0, "wrk": 0.5, "backend": 0.1}


def made(**rates: list[tuple[float, float]]) -> Samples:
    """Make samples of pages a second without and with a call, round by round; the keys are names in `servers`."""
    rivals: Any = {
        getattr(servers, key).name: {"plain": [load(a) for a, _ in rounds], "call": [load(b) for _, b in rounds]}
        for key, rounds in rates.items()
    }
    return Samples(rivals, [{"rate": 1e5, "cpu": 7.0}])


def test_claims_compare_within_a_round() -> None:
    found = made(
        DHAGAS=[(40_000, 30_000), (10_000, 5_000)],
        THREADS=[(40_000, 1_000), (10_000, 500)],
        PYWSGI=[(9_000, 5_000), (2_000, 1_000)],
        GUNICORN_GEVENT=[(9_000, 3_000), (4_000, 2_000)],
    )
    kept, over_threads, over_gevent = report.claims(found)
    assert (kept.samples, kept.target, kept.reached) == ([75.0, 50.0], "≥ 60%", True)
    assert (over_threads.samples, over_threads.target, over_threads.reached) == ([30.0, 10.0], "≥ 5x", True)
    assert (over_gevent.samples, over_gevent.target, over_gevent.reached) == ([6.0, 2.5], "≥ 2x", True)


def test_what_is_too_slow_is_a_miss() -> None:
    found = made(DHAGAS=[(40_000, 20_000)], THREADS=[(40_000, 5_000)], PYWSGI=[(20_000, 11_000)])
    assert [claim.reached for claim in report.claims(found)] == [False, False, False]


# ---- the program


def run(*options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.pipeline", *options]
    environ = os.environ if path is None else {**os.environ, "PATH": path}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(cpus() is None or not shutil.which("wrk"), reason="needs two CPUs and wrk")
def test_quick_run_gives_a_whole_outcome(tmp_path: Path) -> None:
    ended = run("--quick", "--rivals", THREADS.name, DHAGAS.name, "--results", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    outcome = Outcome.load(tmp_path / "pipeline.json")
    assert problems(outcome, pipeline.draw(outcome)) == []
    assert [line[0] for line in outcome.tables[0].lines] == [THREADS.name, DHAGAS.name]
    assert len(list(tmp_path.glob("*.svg"))) == 2
