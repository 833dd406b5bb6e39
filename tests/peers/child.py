"""Run a module of a peer's own tests in this process, with the real peer or with Dhaga under its name.

``tests/peers/run.py`` starts this; the journal is that of ``tests/stdlib/child.py``. Besides its plan this one's has
``path``, folders in which to import first, and ``bridge``, a file of ours to run first ("" with the real peer).
"""

from __future__ import annotations

import importlib.util
import inspect
import runpy
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def prepare(plan: dict[str, Any]) -> None:
    """Make the peer's tests importable."""
    sys.path[:0] = plan["path"]
    if plan["bridge"]:
        runpy.run_path(plan["bridge"], run_name="bridge")


def with_functions(suite_of: Any) -> Any:
    """Make a loader of ``unittest`` that also takes the functions which pytest would take."""

    def load(self: unittest.TestLoader, module: Any, *args: Any, **kwargs: Any) -> unittest.TestSuite:
        return unittest.TestSuite([suite_of(self, module, *args, **kwargs), *functions_of(module)])

    return load


def functions_of(module: Any) -> Iterator[unittest.TestCase]:
    """Yield the tests of a module that are plain functions without arguments."""
    for name, value in vars(module).items():
        if name.startswith("test") and inspect.isfunction(value) and not inspect.signature(value).parameters:
            yield unittest.FunctionTestCase(value)


def main() -> None:
    standard = Path(__file__).parents[1] / "stdlib/child.py"
    spec = importlib.util.spec_from_file_location("standard_child", standard)
    assert spec and spec.loader
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    loader: Any = unittest.TestLoader
    loader.loadTestsFromModule = with_functions(loader.loadTestsFromModule)
    child.main(prepare)


if __name__ == "__main__":
    main()
