"""``tests/kit/suite.py``: a test that hangs or kills its process neither ends the run nor hides other results."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.kit.scripts import ROOT
from tests.kit.suite import is_long

TESTS = """
import os, threading, time

def test_passes(): pass

def test_fails(): assert [1] == [2]

def test_hangs():
    import dhaga
    dhaga.sleep(1000)

def test_dies(): os.abort()

def test_is_run_all_the_same(): pass
"""


def suite(*arguments: object) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "tests.kit.suite", "-q", "-p", "no:cacheprovider", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
def test_one_that_hangs_or_dies_fails_alone_and_the_names_of_all_come_last(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    status, lines = suite(file, "--rootdir", tmp_path, "--confcutdir", tmp_path, "--test-seconds", 4)
    assert status == 1
    assert lines[-4:-1] == [
        "FAILED test_some.py::test_fails - assert [1] == [2]",
        "HUNG test_some.py::test_hangs",
        "DIED test_some.py::test_dies - status -6",
    ]
    assert lines[-1].startswith("== 2 passed, 1 failed, 1 hung, 1 died in ")
    assert any(line.endswith("test_some.py:10 in test_hangs") for line in lines), "it is parked"
    assert any(line.endswith("in run_hub") for line in lines)
    assert not any("pluggy" in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("outcome, last", [("", "1 flaky"), ("assert False", "1 failed"), ("os.abort()", "1 died")])
def test_in_ci_a_test_that_fails_once_is_reported_and_the_run_passes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, outcome: str, last: str
) -> None:
    first = "os.abort()" if "abort" in outcome else "assert False, 'the first time'"
    file = tmp_path / "test_some.py"
    file.write_text(f"""
import os, pathlib

def test_fails_once(mark=pathlib.Path({str(tmp_path / "mark")!r})):
    if not mark.exists():
        mark.touch()
        {first}
    {outcome or "pass"}

def test_passes(): pass
""")
    monkeypatch.setenv("DHAGA_RUN_AGAIN", "1")
    status, lines = suite(file, "--rootdir", tmp_path, "--confcutdir", tmp_path)
    assert status == (last != "1 flaky")
    assert lines[-1].startswith(f"== 1 passed, {last} in ")
    assert lines[-2].startswith(f"{last[2:].upper()} test_some.py::test_fails_once - ")


@pytest.mark.slow
def test_a_mistake_in_the_arguments_is_told_as_pytest_tells_it() -> None:
    status, lines = suite("--no-such-option")
    assert status == 4
    assert any("--no-such-option" in line for line in lines) and lines[-1].startswith("== nothing run in ")


def test_only_what_takes_long_without_a_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    assert is_long(name="test_waits", seconds=3, cpu=0.1, why="")
    assert not is_long(name="test_compiles", seconds=3, cpu=3, why="compiles C code")
    assert not is_long(name="test_is_quick", seconds=0.2, cpu=0.2, why="")
    assert not is_long(test="a journal's other entries")


def test_on_a_busy_machine_only_cpu_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1e6, 1e6, 1e6))
    assert not is_long(name="test_has_to_wait_for_the_cores", seconds=30, cpu=1, why="")
    assert is_long(name="test_computes", seconds=30, cpu=3, why="")
