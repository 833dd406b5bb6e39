"""Interpreters in which Dhaga cannot work say so when it is imported."""

from __future__ import annotations

import sys

import pytest

from tests.kit.scripts import prints

IMPORTS = """
try:
    import dhaga
except ImportError as error:
    print(error.name, "|", str(error).replace("\\n", " "))
"""


@pytest.mark.parametrize("lock", ["False", "True"])
def test_an_older_free_threaded_build_is_refused_at_the_import_with_its_lock_on_or_off(lock: str) -> None:
    fakes = f"sys.abiflags, sys.version_info = 't', (3, 14, 7)\nsys._is_gil_enabled = lambda: {lock}"
    (line,) = prints(f"import sys\n{fakes}{IMPORTS}")
    assert line.startswith("dhaga | dhaga needs Python 3.15 or newer among free-threaded builds")
    assert line.endswith("without a t: python3.14")


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
    assert [line.split(",")[0] for line in lines] == ["dhaga | dhaga works only in the main interpreter"] * 2
