"""Modules imported at the start of a process, and those left to first use. Their cost: benchmarks/startup.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.scripts import ROOT, prints

LATER = {
    *("dhaga.asyncio", "dhaga.debug", "dhaga.futures", "dhaga.http", "dhaga.integrations", "dhaga.monkey"),
    *("dhaga.pool", "dhaga.queue", "dhaga.servers", "dhaga.socket", "dhaga.ssl", "dhaga.stream", "dhaga.subprocess"),
    *("dhaga.testing", "dhaga.threading", "_dhaga_pytest", "pytest", "multiprocessing", "sqlite3"),
    *("tornado.httpclient", "tornado.iostream", "tornado.netutil", "tornado.web", "uvloop"),
}
"""Modules that `import dhaga` leaves to the imports of the program."""


def test_import_dhaga_imports_no_more_than_the_kernel_needs() -> None:
    (names,) = prints("import sys, dhaga; print(*sys.modules)")
    imported = set(names.split())
    assert "dhaga._kernel.run.scheduler" in imported
    assert not imported & LATER


PROBE = """
import sys

def test_nothing():
    used = {name.partition(".")[0] for name in sys.modules} & {"dhaga", "greenlet", "tornado"}
    assert used == set(), used
    assert "_dhaga_pytest" in sys.modules
"""


@pytest.mark.parametrize("used", [False, True])
def test_a_run_of_pytest_imports_dhaga_only_if_a_test_uses_it(tmp_path: Path, used: bool) -> None:
    use = "\n\ndef test_with_a_clock(dhaga_clock):\n    import dhaga\n    dhaga.sleep(1000)\n"
    (tmp_path / "test_it.py").write_text(PROBE + (use if used else ""))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "_dhaga_pytest", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{1 + used} passed" in run.stdout
