"""Reports: events in words, and the lines around switches side by side."""

from __future__ import annotations

from dhaga.simulation import Outcome
from dhaga.simulation._report import failure_text, members_of


def test_members_of_switches_are_those_that_they_name() -> None:
    assert members_of("2.31>1,1/4>3") == {1, 2, 3}
    assert members_of("") == set()


def test_a_failure_without_lines_is_its_report() -> None:
    assert failure_text(Outcome(1, kind="KeyError", report="text\n")) == "text"


def test_lines_around_the_switches_follow_the_report() -> None:
    lines = [(0, "a.py", 1), (1, "a.py", 2), (0, "a.py", 3)]
    outcome = Outcome(1, kind="KeyError", report="text", switches="0.1>1", names=["main code", "one"], lines=lines)
    text, _, beside = failure_text(outcome).partition("\n\nthe lines around the switches:\n\n")
    assert text == "text" and beside.splitlines()[0].split() == ["main", "code", "one"]
