"""Libraries that take a concurrent.futures executor take ours: asyncio, uvloop, Tornado; more in tests/integrations."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import tornado.concurrent
import tornado.ioloop
import uvloop

import dhaga
from dhaga import futures, pool
from dhaga._workers import dhaga_pool
from dhaga.futures import Executor
from dhaga.pool import Pool
from dhaga.threading import Barrier

CROWD = 60
crowd = Barrier(CROWD)


@pytest.fixture(params=["over the loop's own scheduler", "over a pool"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "over a pool":
        with Pool(2, CROWD) as pool, Executor(pool) as executor:
            yield executor
    else:
        with Executor() as executor:
            yield executor


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def run(main: Callable[[], Awaitable[Any]]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(main())

    return run


def meet(number: int) -> int:
    """Park until the whole crowd is there: all its calls must be under way at once."""
    crowd.wait(30)
    return number


def nap(number: int) -> int:
    dhaga.sleep(0.01)
    return number


def divide(a: int, b: int) -> float:
    return a / b


def test_no_class_is_taken_for_a_pool_of_threads() -> None:
    """Dask keeps state by OS thread for an executor whose class has ``ThreadPoolExecutor`` in its name."""
    classes = [
        value for room in (futures, pool, dhaga_pool) for value in vars(room).values() if isinstance(value, type)
    ]
    assert Executor in classes and not [each for each in classes if "ThreadPoolExecutor" in each.__name__]
    assert isinstance(Executor(), concurrent.futures.Executor)


def test_asyncio_runs_calls_in_it_at_once(executor: Executor, run: Callable[..., Any]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = await asyncio.gather(*(loop.run_in_executor(executor, meet, n) for n in range(CROWD)))
        assert done == list(range(CROWD))
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(executor, divide, 1, 0)

    run(main)


def test_asyncio_cancels_a_call_in_it(executor: Executor, run: Callable[..., Any]) -> None:
    begun: list[bool] = []
    ends: list[str] = []

    def call() -> None:
        begun.append(True)
        try:
            dhaga.sleep(60)
        finally:
            ends.append("finally")

    async def main() -> None:
        future = asyncio.get_running_loop().run_in_executor(executor, call)
        while not begun:
            await asyncio.sleep(0.001)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        while not ends:
            await asyncio.sleep(0.001)

    run(main)
    assert ends == ["finally"]


def test_wrap_future_brings_a_call_to_a_coroutine(executor: Executor, run: Callable[..., Any]) -> None:
    async def main() -> int:
        return await asyncio.wrap_future(executor.submit(nap, 7))

    assert run(main) == 7


def test_tornado_decorates_methods_with_it(executor: Executor) -> None:
    class Service:
        def __init__(self) -> None:
            self.executor = self.other = executor

        @tornado.concurrent.run_on_executor
        def meet(self, number: int) -> Any:
            return meet(number)

        @tornado.concurrent.run_on_executor(executor="other")
        def fails(self) -> None:
            raise LookupError("of the call")

    async def main() -> None:
        service = Service()
        assert await asyncio.gather(*(service.meet(n) for n in range(CROWD))) == list(range(CROWD))
        with pytest.raises(LookupError, match="of the call"):
            await service.fails()
        assert await tornado.ioloop.IOLoop.current().run_in_executor(executor, nap, 7) == 7

    asyncio.run(main())


def test_the_standard_waits_for_calls_of_a_pool() -> None:
    with Pool(2, 2) as pool, Executor(pool) as executor:
        calls = [executor.submit(nap, n) for n in range(9)]
        assert concurrent.futures.wait(calls, timeout=20).not_done == set()
        assert set(concurrent.futures.as_completed(calls, timeout=20)) == set(calls)
        assert list(executor.map(nap, range(9), timeout=20)) == list(range(9))


def test_an_executor_over_a_pool_leaves_it_open_and_waits_for_its_own_calls_alone() -> None:
    with Pool(1, 4) as pool:
        gate = threading.Event()
        other = pool.submit(lambda: [dhaga.sleep(0.001) for _ in iter(gate.is_set, True)])
        with Executor(pool) as executor:
            mine = executor.submit(nap, 1)
        assert mine.done() and not other.done() and pool.submit(int).result() == 0
        gate.set()
