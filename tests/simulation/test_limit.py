"""The limit of real time: a run that is too slow says at which lines its threads stand."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dhaga.simulation import Settings, search
from dhaga.simulation._search.limit import limited
from tests.kit.scripts import ROOT

pytestmark = pytest.mark.once


def blocks_in_c() -> None:
    def waits() -> None:
        threading.Event().wait(5)

    threading.Thread(target=waits).start()
    time.sleep(0.001)
    ctypes.CDLL(None).pause()


def test_a_run_that_blocks_in_c_says_where_each_thread_stands() -> None:
    (failure,) = search(blocks_in_c, 1, Settings(preempt=None), real_seconds=2).failures
    assert failure.kind == "Hang"
    assert failure.report.startswith("the run of seed 0 took longer than 2 s of real time\n")
    assert "in blocks_in_c" in failure.report and "in waits" in failure.report


def test_a_program_that_may_set_timers_keeps_its_signal() -> None:
    settings = Settings(preempt=None, allow=["signals"])
    (failure,) = search(blocks_in_c, 1, settings, real_seconds=2).failures
    assert failure.report == "the run of seed 0 took longer than 2 s of real time"


def test_one_seed_has_the_limit_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import ctypes\nctypes.CDLL(None).pause()\n")
    found = subprocess.run(
        [sys.executable, "-m", "dhaga", "simulate", "--seed", "3", "--timeout", "2", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1, found
    assert "the run of seed 3 took longer than 2 s of real time" in found.stderr
    assert "program.py:2 in <module>" in found.stderr


def test_in_another_thread_there_is_no_limit() -> None:
    ended: list[str] = []

    def run() -> None:
        with limited(1, 0.001, ended.append):
            time.sleep(0.05)
        ended.append("as it was")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended == ["as it was"]
