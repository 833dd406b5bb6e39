"""A run under Wine that hangs: it ends, and its last line says what hung. Here the programs run without Wine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """#!/bin/sh
echo "FAILED test_a"
exec sleep 1000
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs timeout of GNU")
def test_a_program_that_hangs_is_ended_and_named_in_the_last_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PROGRAM)
    python.chmod(0o755)
    (tmp_path / "site").mkdir()
    command = [str(ROOT / ".ci/on-wine"), str(python), "-m", "pytest"]
    done = subprocess.run(
        command, env={**os.environ, "ON_WINE_SECONDS": "1"}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 124
    assert done.stdout.splitlines() == ["FAILED test_a", "HUNG on Wine: not done within 1 s: -m pytest"]


def test_a_run_whose_test_leaves_a_thread_reports_failures_and_names_the_thread(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text("""
import threading

def test_left():
    threading.Thread(target=threading.Event().wait, name="reader").start()
    assert False
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.kit.wine.left_threads", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", os.devnull, "--noconftest", f"--rootdir={tmp_path}", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "LEFT_THREADS_SECONDS": "1", "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout and "test_left" in done.stdout
    assert done.stderr.splitlines()[-1] == "HUNG at the end of the run: the threads reader have not ended"
