"""A task for each request, created by another task, all in one OS thread: `run.py` and `clients.py` as coroutines."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from benchmarks.rate_model.clients import AsyncPool
from benchmarks.rate_model.run import Plan, Run

Call = Callable[[int], Awaitable[None]]


def perform(run: Run) -> None:
    """Perform a run. A hanging request is cancelled when its loop ends."""
    asyncio.run(_drive(run))


async def _drive(run: Run) -> None:
    arrivals = run.arrivals
    call = _calling(run.plan) if run.plan.ports else _sleeping(run.plan)
    tasks: set[asyncio.Task[None]] = set()  # the loop has only weak references to its tasks
    arrivals.begin()
    while arrivals.left():
        await asyncio.sleep(arrivals.pause())
        for number in arrivals.take():
            task = asyncio.create_task(_request(run, call, number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    for seconds in run.pauses():
        await asyncio.sleep(seconds)


async def _request(run: Run, call: Call, number: int) -> None:
    try:
        await call(number)
    except OSError as error:
        run.failed[number] = str(error)
    else:
        run.done[number] = monotonic()


def _sleeping(plan: Plan) -> Call:
    latencies, upstreams = plan.latencies, len(plan.latencies)

    def call(number: int) -> Awaitable[None]:
        return asyncio.sleep(latencies[number % upstreams])

    return call


def _calling(plan: Plan) -> Call:
    loop = asyncio.get_running_loop()
    pools = [AsyncPool(loop, port) for port in plan.ports]

    def call(number: int) -> Awaitable[None]:
        return pools[number % len(pools)].call()

    return call
