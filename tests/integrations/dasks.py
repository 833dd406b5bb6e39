"""A scheduler and a worker of Dask's as processes, and the tasks that they run; each prints a line when it is up.

python -m tests.integrations.dasks scheduler
python -m tests.integrations.dasks worker ADDRESS DHAGAS
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import distributed

import dhaga
from dhaga.aio import run_in_dhaga
from dhaga.futures import Executor
from dhaga.pool import Pool
from dhaga.threading import Event

# ---- tasks, and what is known of them in the process that runs them

gate = Event()
parked: set[int] = set()
begun: list[int] = []


def wait(number: int) -> int:
    """Park until the gate is open. Returns: the process."""
    begun.append(number)
    parked.add(number)
    try:
        gate.wait(60)
    finally:
        parked.discard(number)
    return os.getpid()


def count() -> int:
    return len(parked)


def open_gate() -> None:
    gate.set()


def shut_gate() -> None:
    gate.clear()
    begun.clear()


def knows(key: str, dask_worker: Any) -> bool:
    return key in dask_worker.state.tasks


def begun_here() -> list[int]:
    return begun


def nap(number: int) -> int:
    dhaga.sleep(0.01)
    return number


def divide(a: int, b: int) -> float:
    dhaga.sleep(0)
    return a / b


def of_dask(name: str) -> str:
    """Ask Dask for one of the things that it keeps by OS thread."""
    return str(getattr(distributed, name)())


def address_of_worker() -> str:
    dhaga.sleep(0)
    return str(distributed.get_worker().address)


async def address_by_coroutine() -> str:
    """The way out: a task that is a coroutine has its worker, and the dhaga that it calls has it, too."""
    return await run_in_dhaga(address_of_worker)


# ---- processes


async def schedule() -> None:
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False, dashboard_address=None) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


async def work(address: str, executor: Executor, dhagas: int) -> None:
    options: dict[str, Any] = {"nthreads": dhagas, "nanny": False, "dashboard": False}
    async with distributed.Worker(address, executor=executor, **options) as worker:
        print(worker.address, flush=True)
        await worker.finished()


def main() -> None:
    match sys.argv[1:]:
        case ["scheduler"]:
            asyncio.run(schedule())
        case ["worker", address, dhagas]:
            with Pool(threads=1, dhagas=int(dhagas)) as pool:
                asyncio.run(work(address, Executor(pool), int(dhagas)))


if __name__ == "__main__":
    main()
