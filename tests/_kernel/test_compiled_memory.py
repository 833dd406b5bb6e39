"""If an allocation fails, a call is done, or raises MemoryError and has changed nothing: each allocation in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from dhaga._kernel.fast import accelerator, compiled
from tests._kernel import compiled_uses

pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
pytest.importorskip("trustme")

pytestmark = [
    pytest.mark.skipif(
        sys.version_info[:2] in ((3, 12), (3, 15)),
        reason="swept on 3.11, 3.13 and 3.14: on 3.12 the process ends at some allocations, on 3.15 TLS loses a byte",
    ),
    pytest.mark.skipif(
        not isinstance(accelerator.fast_paths, ModuleType), reason=f"pure: {accelerator.fast_paths!s:.5}…"
    ),
    pytest.mark.skipif(os.environ.get("DHAGA_POLLER") == "ioloop", reason="with the portable poller sockets are pure"),
]

USES = list(compiled_uses.uses(None, None))
PARTS = [USES[begin::4] for begin in range(4)]

NO_STACK = "Fatal Python error: g_switchstack: greenlet: Failed low-level slp_switch()"
"""greenlet ends the process where it finds no memory for the stack of the greenlet that it switches away from."""


def test_each_compiled_function_is_used() -> None:
    functions: dict[Any, Any] = dict(compiled.python_functions)
    assert {name.split()[0] for name in USES} == {each.__qualname__ for each in functions}


@pytest.mark.process
@pytest.mark.parametrize("names", PARTS, ids=["first", "second", "third", "fourth"])
def test_an_allocation_that_fails_loses_nothing(names: list[str]) -> None:
    command = [sys.executable, "-m", "tests._kernel.without_memory", *names]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=80, check=True).stdout.splitlines()
    cases: dict[str, dict[str, str]] = {}
    for line in lines:
        name, number, told = line.split(": ", 2)
        cases.setdefault(name, {})[number] = told
    assert list(cases) == names
    wrong = []
    for name, told_of in cases.items():
        right = {f"failed; {told_of.pop('untouched')}", f"done; {told_of.pop('whole')}"}
        assert list(told_of.values())[-1] == "over", name
        wrong += [
            (name, each) for each in list(told_of.items())[:-1] if each[1] not in right and NO_STACK not in each[1]
        ]
    assert wrong == []
    assert sum(told.startswith("failed") for told_of in cases.values() for told in told_of.values()) >= 5
