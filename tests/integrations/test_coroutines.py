"""Celery's tasks that are coroutine functions: awaited, with limits, revokes, retries and requests as any task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("celery")

from celery import chain, current_task
from celery.exceptions import SoftTimeLimitExceeded, TaskRevokedError, TimeLimitExceeded

import dhaga
from dhaga.aio import run_in_dhaga
from tests.kit.celery_world import World, come_to, until


def test_coroutines_wait_side_by_side_on_one_loop_each_with_its_request(world: World) -> None:
    @world.task(bind=True)
    async def wait(self: Any, number: int) -> Any:
        world.begun.append(number)
        before = self.request.id
        while not world.gate.is_set():
            await asyncio.sleep(0.005)
        inner = await asyncio.gather(asked(), asked())
        return number, before == self.request.id, {before, *inner} == {before}, id(asyncio.get_running_loop())

    async def asked() -> Any:
        await asyncio.sleep(0)
        return current_task.request.id

    with world.working(concurrency=50):
        results = [wait.delay(number) for number in range(50)]
        until(lambda: len(world.begun) == 50)
        world.gate.set()
        found = [come_to(result) for result in results]
    assert [each[:3] for each in found] == [[number, True, True] for number in range(50)]
    assert len({each[3] for each in found}) == 1


def test_results_errors_chains_and_calls_of_other_tasks(world: World) -> None:
    @world.task
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    @world.task
    async def twice(number: int) -> int:
        return await add(number, 0) + await add.run(number, 0)

    @world.task
    async def fail() -> None:
        raise ValueError("in a coroutine")

    @world.task
    def by_hand(number: int) -> int:
        dhaga.sleep(0)
        return asyncio.run(add(number, 1))

    with world.working():
        assert come_to(add.delay(1, 2)) == 3
        assert come_to(chain(add.s(1, 2), twice.s())()) == 6
        assert come_to(by_hand.delay(1)) == 2
        with pytest.raises(ValueError, match="in a coroutine"):
            come_to(fail.delay())


def test_retries_by_hand_and_by_autoretry(world: World) -> None:
    @world.task(bind=True, max_retries=2)
    async def third_time(self: Any) -> Any:
        await asyncio.sleep(0)
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return self.request.retries

    @world.task(bind=True, max_retries=2)
    async def in_a_dhaga(self: Any) -> Any:
        if self.request.retries < 2:
            await run_in_dhaga(self.retry, countdown=0)
        return self.request.retries

    @world.task(bind=True, autoretry_for=(ValueError,), retry_backoff=False, default_retry_delay=0, max_retries=2)
    async def by_itself(self: Any) -> Any:
        await asyncio.sleep(0)
        if self.request.retries < 2:
            raise ValueError
        return self.request.retries

    with world.working():
        assert come_to(third_time.delay()) == 2
        assert come_to(in_a_dhaga.delay()) == 2
        assert come_to(by_itself.delay()) == 2


def test_limits_and_revokes_cancel_the_coroutine(world: World) -> None:
    @world.task(bind=True)
    async def wait(self: Any) -> None:
        world.begun.append(self.request.id)
        try:
            await asyncio.sleep(1000)
        finally:
            world.trace.append(self.request.id)

    with world.working():
        for options, error in (
            ({"soft_time_limit": 0.05}, SoftTimeLimitExceeded),
            ({"time_limit": 0.05}, TimeLimitExceeded),
        ):
            with pytest.raises(error):
                come_to(wait.apply_async(**options))
        revoked = wait.delay()
        until(lambda: len(world.begun) == 3)
        revoked.revoke(terminate=True)
        with pytest.raises(TaskRevokedError):
            come_to(revoked)
        until(lambda: world.trace == world.begun)
