"""Programs run under ``-X lazy_imports=all`` (Python 3.15, PEP 810) as without it: those of the patch's tests."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.kit.scripts import prints

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(sys.version_info < (3, 15), reason="lazy imports came with Python 3.15"),
]

FILES = ("patcher", "preconditions", "rebind", "stdlib_reprs", "upgrade_locks")

LEFT_OUT = {
    "test_our_modules_may_stand_in_sys_modules_by_a_second_name": "it compares names before they are resolved",
    "test_locks_work_while_the_interpreter_is_taken_down": "the interpreter clears the modules in another order",
}


def programs_of_tests() -> Iterator[Callable[[], None]]:
    for file in FILES:
        module = importlib.import_module(f"tests.monkey.test_{file}")
        for name, function in vars(module).items():
            if not name.startswith("test_") or name in LEFT_OUT or inspect.signature(function).parameters:
                continue
            if {"prints", "run"} & {*function.__code__.co_names}:
                yield function


@pytest.mark.parametrize("test", [*programs_of_tests()], ids=lambda test: f"{test.__module__[18:]}-{test.__name__[5:]}")
def test_a_program_of_the_patch_runs_with_lazy_imports(
    test: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON_LAZY_IMPORTS", "all")
    test()


@pytest.mark.parametrize("start", ["import dhaga.monkey; dhaga.monkey.patch()", "import dhaga"])
def test_the_mode_of_the_program_stays(start: str) -> None:
    program = f"{start}\nimport sys, wave\nprint(sys.get_lazy_imports(), 'wave' in sys.modules)"
    assert prints(program, "-X", "lazy_imports=all") == ["all False"]
