"""Celery's worker with its tasks on dhagas, in this process, over a broker in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("celery")

from celery import chain, chord, current_task, group, signals
from celery.exceptions import (
    Ignore,
    Reject,
    WorkerLostError,
)
from celery.worker import state

import dhaga
from tests.kit.celery_world import World, come_to, until


def test_tasks_wait_side_by_side_in_one_os_thread(world: World) -> None:
    @world.task(bind=True)
    def wait(self: Any, number: int) -> Any:
        world.begun.append(number)
        before = current_task.request.id
        world.wait_at_gate()
        assert current_task.request.id == before == self.request.id
        return number, threading.get_ident()

    with world.working(concurrency=50) as pool:
        results = [wait.delay(number) for number in range(50)]
        until(lambda: len(world.begun) == 50)
        assert pool.info["running"] == 50
        world.gate.set()
        found = [come_to(result) for result in results]
    assert [number for number, _ in found] == list(range(50))
    assert len({ident for _, ident in found}) == 1


def test_retries_chains_groups_and_chords_run_as_anywhere(world: World) -> None:
    @world.task
    def add(one: int, other: int) -> int:
        dhaga.sleep(0.001)
        return one + other

    @world.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    @world.task(bind=True, max_retries=2)
    def third_time(self: Any) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        retries: int = self.request.retries
        return retries

    with world.working():
        assert come_to(third_time.delay()) == 2
        assert come_to(chain(add.s(1, 2), add.s(3))()) == 6
        assert come_to(group(add.s(n, n) for n in range(5))()) == [0, 2, 4, 6, 8]
        assert come_to(chord([add.s(n, n) for n in range(5)], total.s())()) == 20


def test_errors_are_reported_and_the_pool_goes_on(world: World) -> None:
    @world.task
    def fail() -> None:
        raise ValueError("so it is")

    @world.task
    def leave() -> None:
        raise SystemExit(3)

    @world.task
    def ignored() -> None:
        raise Ignore

    @world.task(acks_late=True)
    def rejected() -> None:
        raise Reject("no more", requeue=False)

    @world.task
    def fine() -> str:
        return "fine"

    with world.working() as pool:
        with pytest.raises(ValueError, match="so it is"):
            come_to(fail.delay())
        with pytest.raises(WorkerLostError, match=r"raised SystemExit\(3\)"):
            come_to(leave.delay())
        ignored.delay()
        rejected.delay()
        assert come_to(fine.delay()) == "fine"
        until(lambda: not pool.jobs and not state.reserved_requests and not state.active_requests)


def test_signals_and_callbacks_come_in_order(world: World) -> None:
    @world.task
    def noted() -> None:
        world.trace.append("task")

    def note(name: str) -> Callable[..., None]:
        def receive(**_: Any) -> None:
            world.trace.append(name)

        return receive

    receivers = {
        name: note(name)
        for name in ("worker_process_init", "task_prerun", "task_success", "task_postrun", "worker_process_shutdown")
    }
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    try:
        with world.working() as pool:
            come_to(noted.delay())
            until(lambda: not pool.jobs)
    finally:
        for name, receiver in receivers.items():
            getattr(signals, name).disconnect(receiver)
    assert world.trace == [
        "worker_process_init", "task_prerun", "task", "task_success", "task_postrun", "worker_process_shutdown",
    ]  # fmt: skip
