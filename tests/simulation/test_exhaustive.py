"""Exhaustive runs: each schedule once, those with the fewest preemptions first."""

from __future__ import annotations

import itertools

from dhaga.simulation._schedule.exhaustive import ExhaustiveChooser, Schedules
from dhaga.simulation._schedule.members import Member

RUNNING, ONE, TWO = (Member(number, "") for number in range(3))


def test_all_choices_are_taken_once() -> None:
    schedules = Schedules(preemptions=0)
    taken = []
    for prefix in schedules:
        chooser = ExhaustiveChooser(prefix, 0)
        taken.append((chooser.next_of(RUNNING, [ONE, TWO]), chooser.next_of(RUNNING, [RUNNING, ONE, TWO])))
        schedules.add(len(prefix), chooser.decisions)
    assert sorted(taken) == list(itertools.product(range(2), range(3)))


def test_preemptions_are_bounded_and_few_come_first() -> None:
    schedules = Schedules(preemptions=2)
    counts = []
    for prefix in schedules:
        chooser = ExhaustiveChooser(prefix, 2)
        counts.append(sum(chooser.points_left == 1 and chooser.at_point(RUNNING, [ONE]) == 0 for _ in range(4)))
        schedules.add(len(prefix), chooser.decisions)
    assert counts == [0] + [1] * 4 + [2] * 6  # of 4 points: none, one, two


def test_a_point_where_no_other_is_ready_is_no_decision() -> None:
    chooser = ExhaustiveChooser((), 1)
    assert chooser.at_point(RUNNING, []) is None
    assert chooser.decisions == []
