"""Coroutines that are suspended at the end of a simulation: they are closed there, and nothing is logged later."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.simulation import LimitReached, Simulation

pytestmark = pytest.mark.once

steps: list[str] = []
tasks: list[asyncio.Task[None]] = []


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """Start without steps and garbage."""
    steps.clear()
    gc.collect()
    yield
    tasks.clear()


def collect() -> None:
    """Collect the tasks, as happens at some time: a test fails that lets asyncio log something by that."""
    tasks.clear()
    gc.collect()


async def wait() -> None:
    try:
        await asyncio.sleep(1000)
    finally:
        steps.append("closed")


async def wait_again_at_the_end() -> None:
    try:
        await wait()
    finally:
        await wait()


def leave(coroutine: Any, turns: int = 1) -> None:
    """Leave a task of a closed loop unfinished, after some turns of the loop."""
    loop = asyncio.new_event_loop()
    tasks.append(loop.create_task(coroutine))
    for _ in range(turns):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_the_coroutine_of_an_unfinished_task_is_closed() -> None:
    with Simulation(1):
        leave(wait())
        assert steps == []
    assert steps == ["closed"]
    collect()


def test_a_coroutine_that_awaits_at_its_end_is_closed_there() -> None:
    with Simulation(1):
        leave(wait_again_at_the_end())
    assert steps == ["closed"] * 2
    collect()


def test_a_coroutine_that_has_not_begun_is_closed_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    with Simulation(1):
        leave(wait(), turns=0)
    collect()
    assert steps == [] and not recwarn.list


def test_a_run_that_fails_while_a_coroutine_polls_logs_nothing_later(recwarn: pytest.WarningsRecorder) -> None:
    async def poll() -> None:
        while True:
            pass

    for seed in range(6):  # where the error of the run interrupts asyncio.run() depends on the parks before
        with pytest.raises(LimitReached), Simulation(seed, max_events=5000):
            asyncio.run(poll())
        collect()
    assert not recwarn.list


def test_the_coroutines_of_a_killed_host_are_left_as_they_are() -> None:
    with Simulation(1, preempt=None) as world:
        host = world.network.host("server")
        host.spawn(asyncio.run, wait())
        asyncio.run(asyncio.sleep(1))
        host.kill()
    collect()
    assert steps == []


def test_loops_are_made_as_before_after_a_simulation() -> None:
    with Simulation(1) as world:
        leave(wait())
        assert len(world.loops.made) == 1
    asyncio.run(asyncio.sleep(0))
    assert len(world.loops.made) == 1
