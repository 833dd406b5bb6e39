"""Interpreters in which Dhaga cannot work say so when it is imported."""

from __future__ import annotations

import sys

import pytest

from dhaga._kernel.interpreter import check_interpreter
from tests.kit.scripts import prints

IMPORTS = """
try:
    import dhaga
except ImportError as error:
    print(error.name, "|", error)
"""


def test_an_interpreter_with_its_lock_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    check_interpreter()
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    check_interpreter()
    monkeypatch.delattr(sys, "_is_gil_enabled")  # Python 3.12 and before
    check_interpreter()


def test_a_free_threaded_interpreter_without_the_lock_is_refused_at_the_import() -> None:
    (line,) = prints("import sys\nsys._is_gil_enabled = lambda: False" + IMPORTS)
    assert line.startswith("dhaga | dhaga needs the interpreter lock (GIL)") and "PYTHON_GIL=1" in line


@pytest.mark.skipif(sys.version_info < (3, 14), reason="concurrent.interpreters came with Python 3.14")
def test_a_subinterpreter_is_refused_at_the_import_whether_isolated_or_not() -> None:
    lines = prints(f"""
    import _interpreters
    from concurrent import interpreters

    isolated = interpreters.create()
    isolated.exec({IMPORTS!r})
    isolated.close()
    shared = _interpreters.create("legacy")
    _interpreters.exec(shared, {IMPORTS!r})
    _interpreters.destroy(shared)
    """)
    assert [line.split(",")[0] for line in lines] == ["dhaga | dhaga works in the main interpreter alone"] * 2
