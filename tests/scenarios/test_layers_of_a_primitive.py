"""One primitive, several layers: each way to write, read, connect and wait for a child counts and fails as in threads.

The program is ``tests/kit/layers.py``. Run plain, patched and under each compat face, it must report the same outcome
of each case.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WAYS = ("-m", "dhaga"), ("-m", "dhaga", "--as", "gevent"), ("-m", "dhaga", "--as", "eventlet")


def started(*options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-u", *options, "tests/kit/layers.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the shell of os.system reports its child's death
    )


def outcomes(program: subprocess.Popen[bytes]) -> Any:
    """Return the outcomes of cases that a program has reported."""
    with program:
        return json.loads(program.communicate(timeout=120)[0])


@functools.cache
def plainly() -> Any:
    return outcomes(started())


@pytest.mark.long("runs some 300 cases, in part with a slow peer, in two processes")
@pytest.mark.skipif(sys.platform != "linux", reason="pipes and limits as Linux has them")
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_every_layer_of_a_primitive_counts_and_fails_as_in_threads(way: tuple[str, ...]) -> None:
    program = started(*way)
    plain, patched = plainly(), outcomes(program)
    assert {name: patched.get(name) for name in plain if patched.get(name) != plain[name]} == {}
    assert len(plain) > 150
    assert "waits for ever" not in plain.values()
