"""The environment variables that the package reads, and the warning about misspelled ones."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path

import pytest

from dhaga._kernel.faces.environment import KNOWN, warn_of_misspelled
from tests.kit.scripts import ROOT, Program

pytestmark = pytest.mark.logs

SOURCES = ("tests", "benchmarks", "examples", "docs", ".ci", ".github", "Makefile", "hatch_build.py")
GENERATED = {"_build", "__pycache__"}
"""Folders of files that other tests may make meanwhile, such as the pages of the site."""

NAME = r"\bDHAGA_[A-Z0-9_]*[A-Z0-9]\b"


def literals(file: Path) -> set[str]:
    """Return the strings of a module that are the name of a variable."""
    constants = (node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant))
    return {text for text in constants if isinstance(text, str) and re.fullmatch(NAME, text)}


def test_the_known_names_are_those_that_the_source_reads() -> None:
    files = [file for file in (ROOT / "dhaga").rglob("*.py") if file.name != "environment.py"]
    assert set[str]().union(*map(literals, files)) == KNOWN - {"DHAGA_EARLY"}


def test_the_known_names_are_those_that_the_documentation_lists() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text()
    assert set(re.findall(rf"^\| `({NAME})`", page, re.MULTILINE)) == KNOWN - {"DHAGA_EARLY"}
    assert "sets `DHAGA_EARLY` for its own use" in page


def warned(caplog: pytest.LogCaptureFixture, *names: str) -> list[str]:
    caplog.set_level(logging.WARNING, "dhaga")
    caplog.clear()
    warn_of_misspelled(names)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("DHAGA_PUER", "DHAGA_PURE"),
        ("DHAGA_CHUNK", "DHAGA_CHUNKS"),
        ("DHAGA_DEBUGG", "DHAGA_DEBUG"),
        ("DHAGA_DUMPFILE", "DHAGA_DUMP_FILE"),
        ("DHAGA_DUMP_SIG", "DHAGA_DUMP_SIGNAL"),
        ("DHAGA_FASTPATHS", "DHAGA_FAST_PATHS"),
        ("DHAGA_NO_PATCH", "DHAGA_PATCH"),
        ("DHAGA_POLLAR", "DHAGA_POLLER"),
        ("DHAGA_PREEMPTION", "DHAGA_PREEMPT"),
        ("DHAGA_REALTHREADS", "DHAGA_REAL_THREADS"),
        ("dhaga_debug", "DHAGA_DEBUG"),
    ],
)
def test_a_misspelled_name_is_logged_with_the_similar_one(
    name: str, meant: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = warned(caplog, "PATH", name, meant)
    assert line == f"Dhaga does not read the environment variable {name}: did you mean {meant}?"


def test_the_variables_of_the_checkout_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    paths = {path for name in SOURCES for path in [ROOT / name, *(ROOT / name).rglob("*")] if path.is_file()}
    paths = {path for path in paths if not GENERATED.intersection(path.parts)} - {Path(__file__)}
    text = "\n".join(path.read_text(errors="ignore") for path in paths)
    names = set(re.findall(NAME, text))
    assert {"DHAGA_POSTGRES", "DHAGA_RUN_AGAIN", "DHAGA_WINDOWS"} | KNOWN <= names
    assert warned(caplog, *(names - {"DHAGA_EARLY"})) == []


def test_a_restarted_process_logs_no_second_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warned(caplog, "DHAGA_PUER", "DHAGA_EARLY") == []


def test_an_import_of_the_package_logs_the_warning_once() -> None:
    code = "import os; os.environ['DHAGA_PUER'] = '1'\nimport dhaga, dhaga.monkey; dhaga.monkey.patch()"
    assert Program(code).outcome().err.splitlines() == [
        "Dhaga does not read the environment variable DHAGA_PUER: did you mean DHAGA_PURE?"
    ]
