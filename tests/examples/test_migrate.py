"""The guide for those who move over: its three programs print the same, and what it calls ours is there."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

from tests.kit.scripts import ROOT

GUIDE = pathlib.Path(ROOT) / "examples" / "migrate" / "README.md"
REPORT = """\
/              3 links
/gone          missing
/news          3 links
/news/1        2 links
/news/2        2 links
/old           missing
/people        2 links
/people/ada    1 links
/people/kurt   1 links
/slow          too slow
10 pages, 3 at once
"""


@pytest.mark.parametrize("form", ["dhaga", "gevent", "eventlet"])
def test_the_three_forms_print_the_same(form: str) -> None:
    if importlib.util.find_spec(form) is None:
        pytest.skip(f"{form} is not installed")
    command = [sys.executable, "-W", "ignore", "-m", f"examples.migrate.on_{form}"]
    # With dnspython beside it, eventlet imports that patched, and trio with it, which breaks at its sockets.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "EVENTLET_NO_GREENDNS": "yes"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", REPORT)


def test_the_gevent_form_prints_the_same_on_our_own_gevent() -> None:
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "dhaga", "--as", "gevent"]
    command += ["-m", "examples.migrate.on_gevent"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", REPORT)


def rows() -> list[list[str]]:
    lines = [line for line in GUIDE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_name_that_the_guide_calls_ours_is_there() -> None:
    names = set(re.findall(r"`(dhaga\.[\w.]+)", GUIDE.read_text()))
    assert len(names) > 40
    for name in names:
        assert pkgutil.resolve_name(name) is not None, name


def test_each_row_of_the_table_names_three_and_something_of_ours() -> None:
    table = rows()
    assert len(table) > 30
    assert [row for row in table if len(row) != 3 or not re.search(r"`(dhaga|python -m dhaga|signal)", row[2])] == []


@pytest.mark.skipif(importlib.util.find_spec("gevent") is None, reason="gevent is not installed")
def test_each_full_name_that_the_guide_calls_gevents_is_there() -> None:
    names = {name for row in rows() for name in re.findall(r"`(gevent\.[\w.]+)", row[0])}
    assert len(names) > 30
    for name in names:
        assert pkgutil.resolve_name(name) is not None, name
