"""Time limits that libraries enforce themselves end waits on dhagas as in threads, by each hook that makes them park.

The program is ``tests/kit/silent_peers.py``. Run plain and patched, it must report the same outcome of each limit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def started(*options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-u", *options, "tests/kit/silent_peers.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the pool and gRPC log that no peer answers
    )


def outcomes(program: subprocess.Popen[bytes]) -> Any:
    """Return the outcomes of limits that a program has reported."""
    with program:
        return json.loads(program.communicate(timeout=120)[0])


@pytest.mark.long("libpq and psycopg allow no limit below two seconds")
@pytest.mark.skipif(sys.platform != "linux", reason="limits as Linux has them")
def test_each_time_limit_of_a_library_ends_a_wait_for_a_silent_peer_as_in_threads() -> None:
    plain, patched = map(outcomes, [started(), started("-m", "dhaga")])
    assert {name: patched.get(name) for name in plain if patched.get(name) != plain[name]} == {}
    assert len(plain) > 20
    assert [name for name in plain if "waits for ever" in plain[name] or "too early" in plain[name]] == []
