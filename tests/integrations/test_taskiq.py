"""taskiq's receiver with dhagas: in this process, and in a worker that takes its tasks from Redis."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import taskiq
from taskiq.receiver import Receiver

import dhaga
from dhaga.futures import Executor
from dhaga.threading import Event
from tests.kit.scripts import ROOT
from tests.scenarios.test_asyncio_libraries import address_of

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:taskiq"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]

CROWD = 1000


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "taskiq")


# ---- in this process


class Here(taskiq.InMemoryBroker):
    """Runs its tasks on this loop, in an executor of ours."""

    def __init__(self, executor: Executor) -> None:
        super().__init__(max_stored_results=-1)
        self.receiver = Receiver(self, executor, max_async_tasks=2 * CROWD)


def run(main: Any) -> None:
    """Run a test's coroutine function with a broker."""

    async def run() -> None:
        broker = Here(Executor(dhagas=2 * CROWD))
        await main(broker)
        await broker.wait_all()
        await broker.shutdown()

    asyncio.run(run())


def test_a_thousand_tasks_wait_at_once_and_an_error_comes_back() -> None:
    gate, parked = Event(), set[int]()

    async def main(broker: Here) -> None:
        @broker.task
        def wait(number: int) -> int:
            parked.add(number)
            gate.wait(60)
            return number

        @broker.task
        def divide(a: int, b: int) -> float:
            return a / b

        tasks = [await wait.kiq(number) for number in range(CROWD)]
        while len(parked) < CROWD:
            await asyncio.sleep(0.01)
        failed = await (await divide.kiq(1, 0)).wait_result(timeout=60, check_interval=0.01)
        with pytest.raises(ZeroDivisionError):
            failed.raise_for_error()
        gate.set()
        done = [(await task.wait_result(timeout=60, check_interval=0.01)).return_value for task in tasks]
        assert done == list(range(CROWD))

    run(main)


def test_a_timeout_ends_a_task_which_no_thread_could() -> None:
    begun: list[bool] = []
    ends: list[str] = []

    async def main(broker: Here) -> None:
        @broker.task(timeout=0.05)
        def sleep() -> None:
            begun.append(True)
            try:
                dhaga.sleep(60)
            finally:
                ends.append("finally")

        while not begun:  # on a busy machine the timeout may come before
            done = await (await sleep.kiq()).wait_result(timeout=30, check_interval=0.01)
            assert isinstance(done.error, TimeoutError)
        while not ends:
            await asyncio.sleep(0.01)

    run(main)
    assert ends == ["finally"]


def test_a_task_has_the_context_of_taskiq_and_one_of_its_own() -> None:
    async def main(broker: Here) -> None:
        @broker.task
        def own(number: int, context: taskiq.Context = taskiq.TaskiqDepends()) -> tuple[int, str]:  # noqa: B008
            dhaga.sleep(0.001 * (number % 7))
            return number, context.message.task_id

        tasks = [await own.kiq(number) for number in range(50)]
        for number, task in enumerate(tasks):
            done = await task.wait_result(timeout=60, check_interval=0.01)
            assert tuple(done.return_value) == (number, task.task_id)

    run(main)


# ---- a worker


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """Run a worker that takes tasks from a queue of its own. Returns: the module with its tasks, and the process."""
    address = address_of("DHAGA_REDIS", "redis://127.0.0.1:6379/0")
    queue = f"dhaga-taskiq-{uuid.uuid4().hex}"
    monkeypatch.setenv("TASKIQ_QUEUE", queue)
    from tests.integrations import taskiqs

    monkeypatch.setattr(taskiqs, "QUEUE", queue)
    command = [sys.executable, "-m", "taskiq", "worker", "tests.integrations.taskiqs:broker", "--workers", "1"]
    options = ["--receiver", "tests.integrations.taskiqs:OnDhagas", "--max-async-tasks", str(2 * CROWD)]
    log = tmp_path / "worker.log"
    with log.open("wb") as errors, subprocess.Popen([*command, *options], cwd=ROOT, stderr=errors) as process:
        try:
            yield taskiqs, process
        finally:
            process.terminate()
            try:
                process.wait(30)
            finally:
                process.kill()
                print(log.read_text()[-5000:])
    with redis.Redis.from_url(address) as client:
        client.delete(queue, f"{queue}-results")


def test_a_worker_has_a_thousand_tasks_waiting_and_ends_in_peace(worker: Any) -> None:
    taskiqs, process = worker

    async def main() -> None:
        tasks = [await taskiqs.wait.kiq(number) for number in range(CROWD)]
        await taskiqs.until_parked(CROWD)
        with pytest.raises(ZeroDivisionError):
            await taskiqs.done(await taskiqs.divide.kiq(1, 0))
        assert await taskiqs.done(await taskiqs.nap.kiq(0.01)) == "slept"
        await taskiqs.open_gate.kiq()
        pids = {await taskiqs.done(task) for task in tasks}
        assert len(pids) == 1 and pids.isdisjoint({os.getpid(), process.pid})
        await taskiqs.broker.shutdown()

    asyncio.run(main())
    process.terminate()
    assert process.wait(30) == 0
