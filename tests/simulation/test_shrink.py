"""Shrinking: few switches are left, and the run fails as before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dhaga.simulation import Settings, search, shrink
from dhaga.simulation._shrink import Shrinking
from dhaga.simulation._switches import Switch, switches_from
from tests.kit.races import RACES

pytestmark = pytest.mark.once


def numbered(count: int) -> list[Switch]:
    return [Switch(1, True, number, 2) for number in range(count)]


@pytest.mark.parametrize("needed", [set(), {0}, {19}, {3, 11}, {0, 7, 8, 19}])
def test_only_the_needed_switches_are_left(needed: set[int]) -> None:
    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        return switches if needed <= {switch.steps for switch in switches} else None

    assert {switch.steps for switch in Shrinking(fails, numbered(20)).run()} == needed


def test_switches_without_effect_are_dropped_with_others() -> None:
    tried = []

    def fails(switches: Sequence[Switch]) -> Sequence[Switch] | None:
        tried.append(len(switches))
        return [switch for switch in switches if switch.steps < 2] or None

    assert Shrinking(fails, numbered(16)).run()[0].steps in (0, 1)
    assert len(tried) < 10


@pytest.mark.parametrize("name", ["lost_update", "check_then_act", "lock_order", "torn_write"])
def test_a_race_of_two_threads_ends_with_few_switches(name: str) -> None:
    findings = search(RACES[name], 500)
    small = shrink(RACES[name], Settings(), findings.failures[0])
    assert small.kind == findings.failures[0].kind
    assert 1 <= len(switches_from(small.switches)) <= 2
    assert small.lines


def test_a_failure_that_cannot_be_repeated_stays_unchanged() -> None:
    findings = search(RACES["lost_update"], 500)
    failure = findings.failures[0]
    assert shrink(lambda: None, Settings(), failure) is failure
