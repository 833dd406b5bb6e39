"""The cause of a failure: the switch, both lines, and the name that they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dhaga.simulation import Outcome, Settings, search, shrink
from dhaga.simulation._world.race_cause import cause_of, clash, names_of
from dhaga.simulation._world.report import failure_text
from tests.kit.races import RACES

SOURCE = """\
total = 0
class Account:
    def pay(self, amount):
        left = self.balance
        self.balance = left - amount
        self.log.append(left)
        return left
def add():
    global total
    seen = total
    total = seen + 1
def outer():
    count = seen = 0
    def inner():
        return count
    return inner, seen
prices = {}
def set_price():
    prices["tea"] = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "bank.py"
    path.write_text(SOURCE)
    return str(path)


def test_the_shared_names_of_a_line_are_attributes_globals_and_closures(file: str) -> None:
    touched = [sorted(names_of(file, line).touched) for line in (4, 5, 6, 10, 11, 13, 15, 19)]
    assert touched == [
        ["balance"],
        ["balance"],
        ["append", "log"],
        ["total"],
        ["total"],
        ["count"],
        ["count"],
        ["prices"],
    ]
    written = [sorted(names_of(file, line).written) for line in (4, 5, 6, 10, 11, 19)]
    assert written == [[], ["balance"], ["log"], [], ["total"], ["prices"]]
    assert not names_of(file + ".none", 1).touched


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [(10, 11, "total"), (11, 11, "total"), (10, 10, ""), (4, 5, "balance"), (5, 11, ""), (6, 6, "log"), (7, 7, "")],
)
def test_two_lines_clash_in_a_name_that_one_of_them_writes(file: str, one: int, other: int, name: str) -> None:
    assert clash((1, file, one), (2, file, other)) == name


def outcome(file: str, lines: Sequence[tuple[int, int]], switches: str, *marks: tuple[int, int]) -> Outcome:
    found = Outcome(1, kind="AssertionError", switches=switches, names=["main code", "one", "two"])
    found.lines = [(member, file, line) for member, line in lines]
    found.marks = [(at, file if line else "", line) for at, line in marks]
    return found


LINES = [(1, 10), (2, 10), (2, 11), (1, 11)]


def test_the_cause_names_the_switch_both_lines_and_the_name(file: str) -> None:
    found = outcome(file, LINES, "1.2>2", (1, 11))
    found.nearest = ""
    assert cause_of(found).splitlines() == [
        "the cause, the switch 1.2>2, without which the run passes:",
        "  one stands before   bank.py:11  total = seen + 1",
        "  two runs meanwhile  bank.py:11  total = seen + 1",
        "  both touch total",
    ]


def test_the_first_switch_whose_lines_clash_is_the_cause(file: str) -> None:
    lines = [(0, 1), (2, 7), (0, 2), *LINES]
    found = outcome(file, lines, "0/1>2,1.2>2", (1, 0), (4, 11))
    assert cause_of(found).startswith("the cause, the switch 1.2>2:")


def test_a_switch_without_a_clash_shows_the_first_line_of_the_other(file: str) -> None:
    found = outcome(file, [(0, 1), (2, 7), (0, 2)], "0/1>2", (1, 0))
    assert cause_of(found).splitlines()[1:] == [
        "  main code waits after  bank.py:1  total = 0",
        "  two runs meanwhile     bank.py:7  return left",
    ]


def test_after_a_park_the_cause_is_who_goes_first(file: str) -> None:
    found = outcome(file, [(0, 1), (2, 7), (2, 10), (1, 11)], "1/1>2", (1, 0))
    found.nearest = "KeyError"
    assert cause_of(found).splitlines() == [
        "the cause, the switch 1/1>2, without which the run fails by KeyError:",
        "  two runs first  bank.py:10  seen = total",
        "  one runs later  bank.py:11  total = seen + 1",
        "  both touch total",
    ]


def test_a_line_that_only_the_nearest_run_reaches_is_compared_also(file: str) -> None:
    found = outcome(file, [(0, 7), (2, 7), (1, 10)], "0/1>2", (1, 0))
    found.nearest, found.nearest_lines = "", [(0, file, 7), (2, file, 11), (1, file, 10)]
    assert cause_of(found).splitlines() == [
        "the cause, the switch 0/1>2, without which the run passes:",
        "  one runs first                         bank.py:10  seen = total",
        "  two runs first in the run that passes  bank.py:11  total = seen + 1",
        "  both touch total",
    ]


def test_time_is_named_where_it_is_the_cause(file: str) -> None:
    found = outcome(file, LINES, "1.2>clock", (1, 11))
    assert "  time passes up to the next deadline" in cause_of(found)


def test_a_failure_in_plain_order_names_its_faults() -> None:
    assert "if its threads run in plain order" in cause_of(Outcome(1, kind="KeyError"))
    assert cause_of(Outcome(1, kind="KeyError", faults="2.8")).endswith("but in the faults 2.8")
    assert cause_of(Outcome(1, kind="KeyError", switches="1.2>2")) == ""


@pytest.mark.parametrize(("race", "name"), [("lost_update", "total"), ("check_then_act", "balance")])
def test_the_cause_of_a_race_is_found_and_the_nearest_run_passes(race: str, name: str) -> None:
    small = shrink(RACES[race], Settings(), search(RACES[race], 500).failures[0])
    text = failure_text(small)
    assert text.startswith("the cause, the switch ") and small.nearest == ""
    assert "without which the run passes" in text and f"both touch {name}" in text
