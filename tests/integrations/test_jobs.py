"""One task of Celery: its limits, its end by a revoke, and what is told of it."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("celery")

from celery.exceptions import (
    SoftTimeLimitExceeded,
    TaskRevokedError,
    TimeLimitExceeded,
)
from celery.worker import state

import dhaga
from dhaga import threading
from dhaga._kernel.process import preemption_watcher
from dhaga.integrations.celery._jobs import Job, JobEnded, logger
from dhaga.testing import settle
from tests._kernel.test_preemption_strikes import needs_events
from tests.kit.celery_world import PATIENCE, Said, World, come_to, until


def test_a_soft_limit_is_raised_at_the_park(world: World) -> None:
    @world.task(soft_time_limit=0.1)
    def tidy() -> str:
        try:
            dhaga.sleep(PATIENCE)
        except SoftTimeLimitExceeded as error:
            return repr(error)
        return "slept"

    with world.working():
        assert come_to(tidy.delay()) == "SoftTimeLimitExceeded(0.1)"


def test_a_hard_limit_ends_the_dhaga_and_is_reported(world: World) -> None:
    @world.task(time_limit=0.1, on_failure=lambda *_: world.trace.append("on_failure"))
    def endless() -> None:
        try:
            dhaga.sleep(10 * PATIENCE)
        except Exception:
            world.trace.append("swallowed")
        finally:
            world.trace.append("put away")

    with world.working() as pool:
        result = endless.delay()
        with pytest.raises(TimeLimitExceeded):
            come_to(result)
        until(lambda: not pool.jobs)
    assert world.trace == ["put away", "on_failure"]


def test_limits_of_the_worker_hold_for_every_task(world: World) -> None:
    @world.task
    def endless() -> None:
        dhaga.sleep(10 * PATIENCE)

    with world.working(time_limit=0.1):
        with pytest.raises(TimeLimitExceeded):
            come_to(endless.delay())


def test_an_end_that_is_swallowed_is_raised_again(world: World, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dhaga.integrations.celery._jobs.RERAISE_SECONDS", 0.05)

    @world.task(time_limit=0.05)
    def stubborn() -> None:
        with contextlib.suppress(BaseException):
            dhaga.sleep(10 * PATIENCE)
        dhaga.sleep(10 * PATIENCE)

    with world.working():
        with pytest.raises(TimeLimitExceeded):
            come_to(stubborn.delay())
    assert "has swallowed the error that ends it (its hard time limit is over)" in said.text()


@pytest.mark.logs
def test_a_limit_ends_a_task_although_a_log_handler_parks() -> None:
    """The handler's lock is held, so that the report of the limit, and the warning of a swallowed error, must wait."""
    log_lock = threading.Lock()
    trace: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with log_lock:
                trace.append("logged")

    def report(soft: bool, limit: float) -> None:
        with log_lock:
            trace.append("reported")

    def task() -> None:
        for _ in range(2):
            try:
                dhaga.sleep(60)
            except SoftTimeLimitExceeded:
                trace.append("soft limit")
            except JobEnded:
                trace.append("swallowed")
        dhaga.sleep(60)

    pool: Any = SimpleNamespace(finish=lambda job: trace.append("finished"))
    job = Job(pool, 1, None, None, {"timeout_callback": report})
    handler = Handler()
    logger.addHandler(handler)
    try:
        with log_lock:
            running = dhaga.spawn(job.run, task, (), {})
            for strike in job.reach_soft_limit, job.reach_hard_limit, job.raise_end:
                dhaga.sleep(0)
                running.scheduler.loop.call_soon(strike)
                settle()
            running.join()
        settle()
    finally:
        logger.removeHandler(handler)
    assert trace[:3] == ["soft limit", "swallowed", "finished"] and set(trace[3:]) == {"reported", "logged"}


def test_a_task_that_never_parks_outlives_its_limit_and_is_told_of(world: World, said: Said) -> None:
    world.app.conf.worker_dhaga_watch = 0.05

    def is_named() -> bool:
        # A busy machine may hold up another one for as long, and this one before and after its own code.
        return any(line.startswith("busy[") and " has held " in line and "in busy" in line for line in said.lines)

    @world.task(time_limit=0.1)
    def busy() -> str:
        deadline = time.monotonic() + PATIENCE
        time.sleep(0.4)
        while not is_named() and time.monotonic() < deadline:
            time.sleep(0.05)  # the watcher's thread has not run yet
        return "its result"

    @world.task
    def parks() -> None:
        dhaga.sleep(0.01)

    with world.working(concurrency=1):
        assert come_to(busy.delay()) == "its result"
        come_to(parks.delay())  # what was meant for the task before does not strike this one
    assert "although its time limit is 0.1 s: a limit ends a task where it parks" in said.text()
    assert is_named()


# ---- a task that computes, in a worker with preemption


@pytest.fixture
def preemptive() -> Iterator[None]:
    preemption_watcher.turn_on(0.005)
    yield
    preemption_watcher.turn_off()


def compute_for_ever() -> None:
    while True:
        pass


@needs_events
def test_a_soft_limit_interrupts_a_task_that_computes(preemptive: None, world: World, said: Said) -> None:
    @world.task(soft_time_limit=0.1)
    def tidy() -> str:
        try:
            compute_for_ever()
        except SoftTimeLimitExceeded as error:
            return repr(error)
        return "computed"

    with world.working():
        assert come_to(tidy.delay()) == "SoftTimeLimitExceeded(0.1)"
    assert "although its time limit" not in said.text()


@needs_events
def test_a_hard_limit_ends_a_task_that_computes(preemptive: None, world: World) -> None:
    @world.task(time_limit=0.1, on_failure=lambda *_: world.trace.append("on_failure"))
    def endless() -> None:
        try:
            compute_for_ever()
        finally:
            sum(1 for _ in range(100_000))
            world.trace.append("put away")

    with world.working() as pool:
        with pytest.raises(TimeLimitExceeded):
            come_to(endless.delay())
        until(lambda: not pool.jobs)
    assert world.trace == ["put away", "on_failure"]


@needs_events
def test_a_revoke_ends_a_task_that_computes(preemptive: None, world: World) -> None:
    @world.task
    def endless() -> None:
        world.begun.append(1)
        compute_for_ever()

    with world.working() as pool:
        result = endless.delay()
        until(lambda: world.begun)
        result.revoke(terminate=True)
        with pytest.raises(TaskRevokedError):
            come_to(result)
        until(lambda: not pool.jobs)


def test_a_revoke_ends_a_task_at_its_park(world: World) -> None:
    endless = world.endless_task()
    with world.working() as pool:
        result = endless.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True)
        with pytest.raises(TaskRevokedError):
            come_to(result)
        until(lambda: not pool.jobs)
    assert world.trace == ["put away"]


def test_what_a_revoked_task_returns_all_the_same_is_not_stored(world: World, said: Said) -> None:
    @world.task
    def stubborn() -> str:
        world.begun.append(1)
        with contextlib.suppress(BaseException):
            dhaga.sleep(10 * PATIENCE)
        return "all the same"

    with world.working() as pool:
        result = stubborn.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True)
        until(lambda: not pool.jobs)
        with pytest.raises(TaskRevokedError):
            come_to(result)
    assert "was revoked, but continued: its result is not stored" in said.text()


def test_a_revoke_by_sigusr1_is_a_soft_limit(world: World) -> None:
    @world.task(ignore_result=False)
    def tidy() -> None:
        world.begun.append(1)
        try:
            dhaga.sleep(10 * PATIENCE)
        except SoftTimeLimitExceeded:
            world.trace.append("soft")

    with world.working() as pool:
        result = tidy.delay()
        until(lambda: world.begun)
        world.app.control.revoke(result.id, terminate=True, signal="SIGUSR1")
        until(lambda: not pool.jobs)
    assert world.trace == ["soft"]


@pytest.mark.parametrize("terminate", [False, True])
def test_a_task_that_waits_for_room_and_is_revoked_does_not_run(world: World, terminate: bool) -> None:
    world.app.conf.worker_prefetch_multiplier = 4

    @world.task
    def wait(number: int) -> None:
        world.begun.append(number)
        world.wait_at_gate()

    with world.working(concurrency=1) as pool:
        first, second = wait.delay(1), wait.delay(2)
        until(lambda: pool.info["waiting"] == 1 and world.begun)
        world.app.control.revoke(second.id, terminate=terminate)
        until(lambda: second.id in state.revoked)
        world.gate.set()
        come_to(first)
        with pytest.raises(TaskRevokedError):
            come_to(second)
        until(lambda: not pool.jobs and not state.reserved_requests)
    assert world.begun == [1]
