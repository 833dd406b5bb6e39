"""Threads that compute or poll without a pause, of the shapes that suites of other packages have: none hangs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kit.scripts import PATIENCE, ROOT
from tests.packages.test_packages import PROGRAMS

LOOPS = {"non_blocking_socket": "urllib3", "stop_flag": "", "counters": "", "job_queue": "huey", "file_lock": ""}
"""The loop that the program is to run, and the package that it needs."""

COMPUTE = {"counters", "job_queue"}
"""Loops in which no call of Dhaga finds nothing: on CPython 3.11 they hang."""


def run(loop: str, *options: str, seconds: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, str(PROGRAMS / "polling_loops.py"), loop],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


@pytest.mark.once
@pytest.mark.process
@pytest.mark.parametrize("loop", LOOPS)
def test_threads_that_poll_or_compute_let_the_others_do_their_part(loop: str) -> None:
    if LOOPS[loop]:
        pytest.importorskip(LOOPS[loop])
    if loop in COMPUTE and sys.version_info < (3, 12):
        pytest.skip("sys.monitoring came with Python 3.12")
    program = run(loop, "-m", "dhaga")
    assert (program.returncode, program.stdout) == (0, f"{loop}\n"), program.stderr
