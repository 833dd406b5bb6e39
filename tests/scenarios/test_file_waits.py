"""Each function that takes a file parks where it waits, or is known to block: see ``tests/kit/file_waits.py``.

A call that blocks hangs its program, because the dhaga that would end the wait never runs.
"""

from __future__ import annotations

import re

import pytest

from tests.kit import file_waits
from tests.kit.scripts import ROOT, prints


def test_each_function_of_files_is_in_a_table() -> None:
    unknown = [name for name in file_waits.functions_of_files() if not file_waits.is_known(name)]
    assert unknown == [], "say in tests/kit/file_waits.py how these wait"


def test_each_function_that_parks_has_a_case() -> None:
    tried = {function for function, *_ in (*file_waits.CALLS, *file_waits.OPENS)}
    assert tried | {"builtins.input"} == set(file_waits.PARKS)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_calls_that_wait_for_a_file_park(pure: str) -> None:
    cases = file_waits.parking_cases()
    program = file_waits.PROLOGUE + "".join(code for _, code in cases)
    assert prints(program, DHAGA_PURE=pure) == [name for name, _ in cases]


def test_calls_that_are_said_to_block_still_do() -> None:
    cases = file_waits.blocking_cases()
    program = file_waits.PROLOGUE + "".join(code for _, code in cases)
    assert prints(program) == [name for name, _ in cases]


@pytest.mark.parametrize("word", ["parks", "blocks"])
def test_the_page_on_parks_shows_the_table(word: str) -> None:
    page = (ROOT / "docs/explained/parks.md").read_text()
    shown = re.findall(rf"^\| `(\w+\.\w+)` \| {word} \| (.*) \|$", page, re.MULTILINE)
    assert dict(shown) == (file_waits.PARKS if word == "parks" else file_waits.BLOCKS)
