"""Lines side by side: a column for each member, and only what is near a switch."""

from __future__ import annotations

from pathlib import Path

import pytest

from dhaga.simulation._world.side_by_side import ROWS, side_by_side

NAMES = ["main code", "Thread-1", "Thread-2"]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "bank.py"
    path.write_text("".join(f"step_{number}()\n" for number in range(1, 100)))
    return str(path)


def test_each_member_has_a_column(file: str) -> None:
    text = side_by_side([(0, file, 1), (1, file, 2), (0, file, 3)], NAMES, {0, 1})
    assert [line.split() for line in text.splitlines()] == [
        ["main", "code", "Thread-1"],
        ["bank.py:1", "step_1()"],
        ["bank.py:2", "step_2()"],
        ["bank.py:3", "step_3()"],
    ]
    columns = [line.index("bank") for line in text.splitlines()[1:]]
    assert columns == [0, text.index("Thread-1"), 0]


def test_other_members_are_left_out(file: str) -> None:
    lines = [(0, file, 1), (2, file, 9), (1, file, 2)]
    assert "step_9" not in side_by_side(lines, NAMES, {0, 1})
    assert side_by_side(lines, NAMES, {0}) == ""


def test_the_middle_of_a_long_stretch_is_cut(file: str) -> None:
    lines = [(0, file, 1), *((1, file, number) for number in range(2, 20)), (0, file, 20)]
    shown = [line.split()[-1] for line in side_by_side(lines, NAMES, {0, 1}).splitlines()[1:]]
    steps = [1, 2, 3, 4, 17, 18, 19, 20]
    assert shown == [*(f"step_{step}()" for step in steps[:4]), "...", *(f"step_{step}()" for step in steps[4:])]


def test_a_line_of_source_is_not_cut_where_many_threads_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "views.py"
    path.write_text("answer = render(request, 'a long name of a template')\n")
    names = [f"Thread-{number}" for number in range(12)]
    text = side_by_side([(number, str(path), 1) for number in range(12)], names, set(range(12)))
    assert all(row.endswith("'a long name of a template')") for row in text.splitlines()[1:])


def test_only_the_last_rows_are_shown(file: str) -> None:
    lines = [(number % 2, file, number) for number in range(1, 99)]
    assert len(side_by_side(lines, NAMES, {0, 1}).splitlines()) == ROWS + 1
