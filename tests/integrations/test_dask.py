"""Dask's workers with dhagas: in this process, and a scheduler with two workers as processes."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from dhaga.futures import Executor
from dhaga.pool import Pool
from tests.integrations import dasks
from tests.kit.scripts import ROOT

pytestmark = [
    pytest.mark.once,
    pytest.mark.filterwarnings("ignore"),  # Dask's own, of Tornado, of dashboards, of duration
]

DHAGAS = 1000
PATIENCE = 90.0


@pytest.fixture(scope="module", autouse=True)
def distributed() -> Iterator[Any]:
    """Import Dask, which warns of what is its own; its one thread that stays is to live as long as this module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed = importlib.import_module("distributed")
        helper = importlib.import_module("distributed.utils")._offload_executor
        helper.submit(int).result()
        yield distributed
        helper.shutdown()


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "distributed")


@contextlib.contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Start a scheduler or a worker."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.integrations.dasks", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def address(running: subprocess.Popen[str]) -> str:
    """Wait until a process is up. Returns: where it listens."""
    assert running.stdout is not None
    found = running.stdout.readline().strip()
    assert found.startswith("tcp://")
    return found


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """Run a scheduler and two workers, each in a process of its own. Returns: the scheduler's address."""
    with process("scheduler") as first:
        at = address(first)
        with process("worker", at, str(DHAGAS)) as one, process("worker", at, str(DHAGAS)) as other:
            assert address(one) != address(other)
            yield at


@contextlib.asynccontextmanager
async def client_of(address: str) -> AsyncIterator[Any]:
    """Connect, and shut the gate of every worker."""
    distributed = importlib.import_module("distributed")
    async with distributed.Client(address, asynchronous=True) as client:
        await client.run(dasks.shut_gate)
        yield client


async def until(client: Any, enough: Callable[[list[int]], bool]) -> None:
    """Wait until so many tasks are parked in the workers."""
    deadline = time.monotonic() + PATIENCE
    while not enough(list((await client.run(dasks.count)).values())):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


# ---- two workers


def test_thousands_of_tasks_wait_at_once_in_two_workers(scheduler: str) -> None:
    async def main() -> None:
        async with client_of(scheduler) as client:
            tasks = client.map(dasks.wait, range(2 * DHAGAS), key="crowd")
            await until(client, lambda counts: sum(counts) == 2 * DHAGAS)
            assert list((await client.run(dasks.count)).values()) == [DHAGAS, DHAGAS]
            await client.run(dasks.open_gate)
            assert len(set(await client.gather(tasks))) == 2

    asyncio.run(main())


def test_an_error_of_a_task_comes_back_with_the_place_and_the_worker_goes_on(scheduler: str) -> None:
    async def main() -> None:
        async with client_of(scheduler) as client:
            failing = [client.submit(dasks.divide, number, 0) for number in range(50)]
            for each in failing:
                with pytest.raises(ZeroDivisionError) as caught:
                    await each
            assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "divide"
            assert await client.gather(client.map(dasks.nap, range(100))) == list(range(100))

    asyncio.run(main())


def test_a_cancelled_task_is_not_begun_and_one_that_runs_goes_on_to_its_end(scheduler: str) -> None:
    """Dask cannot end a task that runs, in whatever executor: it drops what comes of it."""

    async def main() -> None:
        async with client_of(scheduler) as client:
            crowd = client.map(dasks.wait, range(2 * DHAGAS), key="filling")
            await until(client, lambda counts: sum(counts) == 2 * DHAGAS)
            queued = client.submit(dasks.wait, -1, key="queued")
            while not any((await client.run(dasks.knows, "queued")).values()):
                await asyncio.sleep(0.01)  # the task and its end come by another connection than what is run
            await client.cancel(queued)
            while any((await client.run(dasks.knows, "queued")).values()):
                await asyncio.sleep(0.01)
            await client.cancel(crowd[:500])
            assert queued.cancelled() and crowd[0].cancelled()
            assert sum((await client.run(dasks.count)).values()) == 2 * DHAGAS
            await client.run(dasks.open_gate)
            await client.gather(crowd[500:])
            await until(client, lambda counts: not sum(counts))
            begun = (await client.run(dasks.begun_here)).values()
            assert sorted(number for each in begun for number in each) == list(range(2 * DHAGAS))

    asyncio.run(main())


def test_what_dask_keeps_by_thread_is_not_there_but_by_a_coroutine(scheduler: str) -> None:
    """get_worker, get_client, worker_client and secede need Dask's own pool of threads."""

    async def main() -> None:
        async with client_of(scheduler) as client:
            for name in ("get_worker", "get_client", "secede"):
                with pytest.raises(Exception, match=r"No (worker|global client) found"):  # Dask cannot send all
                    await client.submit(dasks.of_dask, name)
            assert await client.submit(dasks.address_by_coroutine) in await client.run(dasks.count)

    asyncio.run(main())


def test_tasks_of_a_worker_that_was_killed_are_done_by_the_others(scheduler: str) -> None:
    async def main() -> None:
        async with client_of(scheduler) as client:
            with process("worker", scheduler, str(DHAGAS)) as victim:
                await client.wait_for_workers(3)
                tasks = client.map(dasks.wait, range(300), key="shared")
                await until(client, lambda counts: sum(counts) == 300 and len(counts) == 3 and all(counts))
                victim.send_signal(signal.SIGKILL)
                victim.wait()
            await until(client, lambda counts: sum(counts) == 300 and len(counts) == 2)
            await client.run(dasks.open_gate)
            assert victim.pid not in set(await client.gather(tasks))

    asyncio.run(main())


# ---- a worker in this process


@contextlib.asynccontextmanager
async def worker_here(executor: Any, threads: int) -> AsyncIterator[tuple[Any, Any]]:
    """Run a scheduler and a worker on this loop, and give the worker and a client."""
    distributed = importlib.import_module("distributed")
    async with (
        distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=None) as scheduler,
        distributed.Worker(
            scheduler.address, executor=executor, nthreads=threads, nanny=False, dashboard=False
        ) as worker,
        distributed.Client(scheduler.address, asynchronous=True) as client,
    ):
        await client.run(dasks.shut_gate)
        yield worker, client


@pytest.fixture(params=["over the loop's own scheduler", "over a pool"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "over a pool":
        with Pool(2, DHAGAS) as pool, Executor(pool) as executor:
            yield executor
    else:
        with Executor() as executor:
            yield executor


def test_a_worker_takes_either_executor(executor: Executor) -> None:
    async def main() -> None:
        async with worker_here(executor, 60) as (worker, client):
            assert worker.executor is executor
            tasks = client.map(dasks.wait, range(60))
            await until(client, lambda counts: counts == [60])
            dasks.open_gate()
            assert await client.gather(tasks) == [os.getpid()] * 60
            assert await client.submit(sum, client.map(abs, range(-9, 0))) == 45

    asyncio.run(main())


def test_dhagas_stand_beside_dasks_threads_and_are_chosen_by_an_annotation() -> None:
    dask = importlib.import_module("dask")

    async def main(executor: Executor) -> None:
        async with worker_here({"dhagas": executor}, 60) as (worker, client):
            with dask.annotate(executor="dhagas"):
                tasks = client.map(dasks.wait, range(50))
            await until(client, lambda counts: counts == [50])
            assert await client.submit(dasks.address_of_worker) == worker.address
            dasks.open_gate()
            assert await client.gather(tasks) == [os.getpid()] * 50

    with Pool(1, DHAGAS) as pool:
        asyncio.run(main(Executor(pool)))


def test_a_worker_that_closes_cancels_its_tasks_and_shuts_its_executor_alone() -> None:
    """Dask cancels what it waits for, and with it the dhaga; a task in a thread of Dask's goes on."""

    async def main(executor: Executor) -> None:
        async with worker_here(executor, 60) as (worker, client):
            tasks = client.map(dasks.wait, range(10))
            await until(client, lambda counts: counts == [10])
            await worker.close()
            assert dasks.count() == 0 and not executor._futures and not tasks[0].done()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(int)

    with Pool(1, DHAGAS) as pool:
        asyncio.run(main(Executor(pool)))
        assert pool.submit(int).result() == 0
