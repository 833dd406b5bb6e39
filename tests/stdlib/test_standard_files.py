"""The suites of the running Python for ``open``, against ours: ``test_io``, ``test_file``, ``test_univnewlines``, ….

Each test runs in a dhaga, so that every operation of its files goes through the pool.
"""

from __future__ import annotations

import importlib
import inspect
import io
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dhaga

WHY_NOT = "this interpreter ships without the package `test`"
support = pytest.importorskip("test.support", reason=WHY_NOT)

FOLDER = "test_io." if (Path(support.__file__).parents[1] / "test_io").is_dir() else ""
"""Where the suites are: from Python 3.15 on in a package."""

GENERAL = "test_io.test_general" if FOLDER else "test_io"
SUITES = {
    f"{FOLDER}test_bufferedio" if FOLDER else "test_bufio": ("CBufferSizeTest",),
    f"{FOLDER}test_file": ("CAutoFileTests", "COtherFileTests"),
    GENERAL: ("CIOTest", "CMiscIOTest"),
    f"{FOLDER}test_univnewlines": ("CTestCRNewlines", "CTestLFNewlines", "CTestCRLFNewlines", "CTestMixedNewlines"),
}


def names_for(module: types.ModuleType) -> dict[str, Any]:
    """Return what a suite for the compiled ``io`` finds on itself: the names of ``io``, and the module's own mocks."""
    names = {name: getattr(io, name) for name in (*io.__all__, "IncrementalNewlineDecoder")}
    names |= {name[1:]: kind for name, kind in vars(module).items() if name.startswith("CM")}
    return {
        name: staticmethod(thing) if isinstance(thing, types.FunctionType) else thing for name, thing in names.items()
    }


def opens(kind: type, test: str) -> bool:
    """Tell whether a test opens a file, as far as its text tells; what does not says nothing about ours."""
    return "self.open" in inspect.getsource(getattr(kind, test)) or kind.__name__ not in SUITES[GENERAL]


def cases() -> Iterator[Any]:
    for name, suites in SUITES.items():
        module = importlib.import_module(f"test.{name}")
        for suite in suites:
            kind = type(suite, (getattr(module, suite),), {**names_for(module), "open": staticmethod(dhaga.open)})
            for test in unittest.defaultTestLoader.getTestCaseNames(kind):
                if opens(kind, test):
                    yield pytest.param(kind, test, id=f"{suite}-{test}")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("kind", "test"), [*cases()])
def test_standard(kind: type[unittest.TestCase], test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = unittest.TestResult()
    dhaga.spawn(kind(test).run, result).result(60)
    if result.skipped:
        pytest.skip(result.skipped[0][1])
    problems = [text for _, text in result.failures + result.errors]
    assert not problems, problems[0]
