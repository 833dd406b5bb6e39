"""What the guide among the examples shows runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.scripts import ROOT

pytestmark = pytest.mark.once

GUIDE = (ROOT / "examples/README.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
PRINTED = {
    "from dhaga.pool import Pool\n\n\ndef fetch": ["499500", "499500"],
    "def old_code": ["249500"],
    "def remind": ["44850"],
    "def crawl": ["44850"],
    "def slow": ["TimeoutError()", "put away"],
}
"""The lines that each prints, in alphabetical order, by what only it contains."""


def test_the_guide_has_these_snippets() -> None:
    assert [sum(mark in snippet for mark in PRINTED) for snippet in SNIPPETS] == [1] * len(PRINTED)


@pytest.mark.parametrize("mark", PRINTED, ids=lambda mark: mark.split()[-1])
def test_every_snippet_of_the_guide_prints_what_it_should(mark: str) -> None:
    (snippet,) = (each for each in SNIPPETS if mark in each)
    command = [sys.executable, "-W", "ignore", "-c", snippet]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, PRINTED[mark]), done.stderr


def test_every_path_of_the_guide_is_there() -> None:
    paths = re.findall(r"`((?:examples|tests)/[\w/*.]+)`", GUIDE)
    assert len(paths) > 5
    assert all(list(ROOT.glob(path)) for path in paths)


def test_every_example_is_in_the_guide() -> None:
    table = re.findall(r"^\| `(\w+)(?:\.py)?` \|", GUIDE, re.MULTILINE)
    there = {Path(path).stem for path in ROOT.glob("examples/*") if path.name not in ("README.md", "__pycache__")}
    assert set(table) == there - {"__init__", "_late"}  # the imports that they share
