"""`python -m benchmarks.cores`: each work goes on in every OS thread, and the report judges what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cores import report
from benchmarks.cores.__main__ import version_of
from benchmarks.cores.samples import LOCKED, ONE, PROCESSES, THREADS, measurement
from benchmarks.cores.services import SITES, Python
from benchmarks.cores.works import WORKS
from benchmarks.samples import Results
from benchmarks.tables.claims import earlier
from dhaga._kernel.interpreter.requirements import FREE_THREADED

pytestmark = pytest.mark.once

HERE = Python(sys.executable, FREE_THREADED)


@pytest.mark.parametrize("name", WORKS)
def test_each_work_counts_in_two_os_threads(name: str) -> None:
    sample = measurement(name, HERE, threads=2, processes=1, seconds=0.1)
    assert sample["rate"] > 0 and sample["cpu"] > 0 and sample["cores"] > 0


def test_two_processes_count_together() -> None:
    assert measurement("compute", HERE, threads=1, processes=2, seconds=0.1)["rate"] > 0


def test_a_work_that_fails_is_told() -> None:
    with pytest.raises(RuntimeError, match="ended with status"):
        measurement("compute", HERE, threads=-1, processes=1, seconds=-1.0)


def made_up() -> dict[str, Any]:
    def sample(rate: float, cpu: float, memory: float) -> dict[str, float]:
        return {"rate": rate, "cpu": cpu, "cores": 1.0, "memory": memory}

    ways = {
        LOCKED: [sample(400.0, 10.0, 30.0)],
        ONE: [sample(300.0, 20.0, 30.0)],
        THREADS: [sample(500.0, 25.0, 40.0)],
        PROCESSES: [sample(500.0, 20.0, 80.0)],
    }
    where = {"python": "CPython 3", "without the lock": "3.15t", "effort": {"threads": 2, "rounds": 1}}
    return {"where": where, "samples": {"compute": ways, "flask-pg8000": ways}, "failures": {}}


def test_threads_are_compared_with_one_thread_and_with_processes() -> None:
    claims = {claim.what: (round(claim.value, 2), claim.reached) for claim in report.claims(Results(**made_up()))}
    flask = "Flask, SQLAlchemy, pg8000, redis-py, 2 threads beside 2 processes"
    assert claims == {
        "CPU-bound dhagas, 2 threads beside 1, rate": (1.67, False),
        "CPU-bound dhagas, 2 threads beside 1, by CPU": (1.6, False),
        f"{flask}, rate": (1.0, True),
        f"{flask}, memory": (0.5, True),
    }


def test_the_summary_has_a_line_for_each_work() -> None:
    lines = report.summary(Results(**made_up())).splitlines()
    assert lines[2].split("|")[1].strip() == "CPU-bound dhagas"
    assert [cell.strip() for cell in lines[2].split("|")[2:8]] == [
        *("400 (10.0)", "300 (20.0)", "500 (25.0)", "500 (20.0)"),
        *("1.67x", "1.60x"),
    ]


def test_the_report_reads_its_results(tmp_path: Path) -> None:
    (tmp_path / "cores.json").write_text(json.dumps(made_up()))
    (outcome,) = earlier(tmp_path)
    assert (outcome.name, len(outcome.claims), len(outcome.tables[0].lines)) == ("cores", 4, 8)


# ---- the two Pythons


@pytest.mark.skipif(FREE_THREADED, reason="this one will do")
def test_a_python_with_the_lock_or_without_dhaga_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no free-threaded Python: dhaga"):
        version_of(Path(sys.executable))
    with pytest.raises(ValueError, match=r"cannot run Dhaga .*: make \.venv-3\.15t/\.test"):
        version_of(tmp_path / "python")


def test_one_thread_alone_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.cores", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert "--threads takes 2 or more" in done.stderr


def test_the_lock_is_kept_off_where_that_is_possible() -> None:
    site = SITES["flask-psycopg2"]
    assert site.settings(HERE._replace(free_threaded=True)) == ["PYTHON_GIL=0"]
    assert site.settings(HERE._replace(free_threaded=False)) == []
