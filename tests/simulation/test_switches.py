"""Switches: their text, and their replay."""

from __future__ import annotations

import pytest

from dhaga.simulation._schedule.members import Member
from dhaga.simulation._schedule.switches import ReplayingChooser, Switch, switches_from


def test_the_text_of_switches_can_be_read_back() -> None:
    switches = [Switch(2, True, 31, 1), Switch(1, False, 4, 2)]
    assert ",".join(map(str, switches)) == "2.31>1,1/4>2"
    assert switches_from("2.31>1, 1/4>2,") == switches


@pytest.mark.parametrize("text", ["2", "2.3", "2.3>", "a.3>1", "2.3>1;1.2>0"])
def test_another_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="a switch is written as"):
        switches_from(text)


def test_a_switch_takes_effect_at_its_step_only() -> None:
    running, other, third = (Member(number, "") for number in range(3))
    chooser = ReplayingChooser([Switch(0, True, 2, 2), Switch(0, False, 1, 2)])
    running.points = 1
    assert chooser.at_point(running, [other, third]) is None
    running.points = 2
    assert chooser.at_point(running, [other, third]) == 1
    running.parks = 1
    assert chooser.next_of(running, [other, third]) == 1
    running.parks = 2
    assert chooser.next_of(running, [other, third]) == 0


def test_a_switch_to_a_member_that_is_not_ready_is_left_out() -> None:
    running, other = Member(0, ""), Member(1, "")
    chooser = ReplayingChooser([Switch(0, True, 0, 7), Switch(0, False, 0, 7)])
    assert chooser.at_point(running, [other]) is None
    assert chooser.next_of(running, [other]) == 0
