"""Random programs of signals, forks, pipes and exits come to the same on OS threads and on dhagas.

The programs are drawn by ``tests/kit/random_endings.py``. ``--dhaga-programs 1000`` runs more of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from dhaga import testing
from tests.kit.scripts import ROOT

WAYS = ("-m", "dhaga"), ("-m", "dhaga", "--as", "gevent")


def started(first: int, count: int, *way: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, *way, "tests/kit/random_endings.py", str(first), str(count)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)


def outcomes(program: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the outcomes of programs, by seed."""
    with program:
        found: dict[str, Any] = json.loads(program.communicate()[0])
    return found


@pytest.mark.long("runs 30 programs by plain Python and by two ways of Dhaga")
@pytest.mark.skipif(sys.platform != "linux", reason="real-time signals, and sigwaitinfo()")
def test_a_program_that_is_signalled_forks_and_ends_comes_to_the_same_on_threads_and_on_dhagas(
    request: pytest.FixtureRequest,
) -> None:
    count = request.config.getoption("--dhaga-programs")
    first = (testing.seed or 0) * count
    plain = outcomes(started(first, count))
    assert len(plain) == count
    running = {way: started(first, count, *way) for way in WAYS}
    differ = {
        f"{' '.join(way)} tests/kit/random_endings.py {seed} 1": (plain[seed], outcome)
        for way, program in running.items()
        for seed, outcome in outcomes(program).items()
        if outcome != plain[seed]
    }
    assert differ == {}
