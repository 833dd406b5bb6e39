"""The replicated store: right in each simulation, and each of its bugs is found."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from dhaga.simulation import Settings, check_determinism, search
from examples.simulation.__main__ import BUGS, program
from examples.simulation.store import NEVER, Replica, packed
from tests.kit.scripts import PATIENCE, ROOT

pytestmark = pytest.mark.once

SETTINGS = Settings(preempt=None)


@pytest.mark.parametrize("seeds", [15, pytest.param(150, marks=pytest.mark.slow)])
def test_the_history_of_all_calls_is_linearizable(seeds: int) -> None:
    findings = search(partial(program, None), seeds, SETTINGS)
    assert not findings.failures, findings.failures[0].report
    assert len(findings.hashes) == findings.runs


@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.long("simulates until the bug shows")
def test_a_simulation_finds_the_bug_and_repeats_it(bug: str) -> None:
    findings = search(partial(program, bug), 200, SETTINGS)
    assert findings.failures, str(findings)
    failure = findings.failures[0]
    assert failure.kind == "NotLinearizable" and "none of these can be next:" in failure.report
    assert check_determinism(partial(program, bug), failure.seed, SETTINGS.for_length(findings.length)) == failure.hash


def test_a_replica_cuts_a_torn_line_off(tmp_path: Path) -> None:
    line = packed("key", (1, "ann"), "value")
    for torn in (b"", line[:10], line[:-1], line.replace(b"value", b"valve")):
        (tmp_path / "log").write_bytes(line + torn)
        replica = Replica(tmp_path)
        assert (replica.read("key"), replica.read("other")) == (((1, "ann"), "value"), (NEVER, ""))
        replica.write("key", (2, "bob"), "later")
        assert Replica(tmp_path).read("key") == ((2, "bob"), "later")


def test_it_says_how_it_is_run() -> None:
    command = [sys.executable, "-m", "examples.simulation"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "run it in a simulation: python -m dhaga simulate -m examples.simulation\n"
