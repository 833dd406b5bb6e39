"""A signal that arrives in a compiled function is handled once and leaves nothing half done, as in Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests._kernel import compiled_uses

pytest.importorskip("trustme")

USES = list(compiled_uses.uses(None, None))
PARTS = [USES[begin::3] for begin in range(3)]
RIGHT = {f"handled 1, raised {raised}; {state}" for raised in (0, 1) for state in ("untouched", "whole")}


@pytest.mark.process
@pytest.mark.parametrize("names", PARTS, ids=["first", "second", "third"])
@pytest.mark.long("a signal at each of some thousand instants")
def test_a_signal_that_arrives_in_a_compiled_function_is_neither_lost_nor_leaves_anything_half_done(
    names: list[str],
) -> None:
    command = [sys.executable, "-m", "tests._kernel.struck_by_signals", *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=80, check=True)
    cases = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert {name.rsplit(" ", 1)[0] for name in cases} == set(names)
    wrong = {name: told for name, told in cases.items() if told not in RIGHT or f"raised {name[-1]}" not in told}
    assert (wrong, done.stderr) == ({}, "")
