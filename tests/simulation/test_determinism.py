"""``check_determinism``: equal runs, and the first event that differs."""

from __future__ import annotations

import os
import time

import pytest

from dhaga import select
from dhaga.select import ANSWERS_BEFORE_YIELD
from dhaga.simulation import NotDeterministic, Settings, Simulation, check_determinism
from tests.kit.races import lost_update


def test_a_seed_that_gives_the_same_run_twice_returns_its_hash() -> None:
    first = check_determinism(lost_update, 3)
    assert first == check_determinism(lost_update, 3) != check_determinism(lost_update, 4)
    assert len(first) == 16


def test_the_first_event_that_differs_is_shown() -> None:
    def program() -> None:
        time.sleep(1)
        time.sleep(1 + os.getpid() % 1000)  # of this process, whose number no seed decides
        time.sleep(1)

    with pytest.raises(NotDeterministic) as caught:
        while True:
            check_determinism(program, 0, Settings(preempt=None))
    text = str(caught.value).splitlines()
    assert text[0] == "two runs of seed 0 differ at event 2; up to there both did:"
    assert "main code waits for sleep" in text[1]
    assert text[2].startswith("then the first run: ") and text[3].startswith("then the second run: ")


@pytest.mark.parametrize("polls", [1, 7, 15])
def test_polls_before_a_simulation_change_no_yield_in_it(polls: int) -> None:
    def poll(times: int) -> None:
        for _ in range(times):
            select.select([], [], [], 0)

    def run() -> str:
        with Simulation(1, preempt=None) as simulation:
            poll(ANSWERS_BEFORE_YIELD * 3)
        return simulation.hash

    first = run()
    poll(polls)
    before = select.immediate.in_a_row
    assert run() == first and select.immediate.in_a_row == before


def test_a_bad_seed_is_an_error() -> None:
    with pytest.raises(TypeError, match="a seed is a whole number"):
        check_determinism(lost_update, "1")
