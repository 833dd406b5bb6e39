"""Programs that poll without a pause: others run and time passes, and a run that polls for ever fails."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from dhaga.simulation import LimitReached, Settings, Simulation, search
from dhaga.simulation._schedule.strategies import strategy_of


def poll_for_a_thread() -> None:
    flag = False

    def set_flag() -> None:
        nonlocal flag
        time.sleep(0)
        flag = True

    threading.Thread(target=set_flag).start()
    while not flag:
        pass


def poll_for_a_timer() -> None:
    flag = False

    def set_flag() -> None:
        nonlocal flag
        flag = True

    threading.Timer(3600, set_flag).start()
    while not flag:
        pass


@pytest.mark.parametrize("strategy", ["fifo", "mixed", "random:0"])
@pytest.mark.parametrize("program", [poll_for_a_thread, poll_for_a_timer])
def test_what_a_thread_polls_for_happens(program: Callable[[], None], strategy: str) -> None:
    findings = search(program, 6, Settings(strategy_of(strategy)), real_seconds=600)
    assert findings.complete and findings.runs == 6


def poll_for_ever() -> None:
    while True:
        pass


def poll_for_ever_in_a_coroutine() -> None:
    async def poll() -> None:
        poll_for_ever()

    asyncio.run(poll())


@pytest.mark.parametrize("program", [poll_for_ever, poll_for_ever_in_a_coroutine])
def test_a_run_that_polls_for_ever_fails_where_it_does(program: Callable[[], None]) -> None:
    with pytest.raises(LimitReached, match=r"20,000 points without an event, .* test_points_polling\.py:\d+"):
        with Simulation(0, max_events=20_000):
            program()
