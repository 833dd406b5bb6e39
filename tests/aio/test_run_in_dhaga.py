"""run_in_dhaga() and dhagas that coroutines await."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import dhaga
from dhaga.aio import run_in_dhaga
from tests.kit.asyncio_places import (
    Runner,
    variable,
)


@pytest.fixture(params=["asyncio", "uvloop"])
def host(request: pytest.FixtureRequest) -> Runner:
    return asyncio.run if request.param == "asyncio" else pytest.importorskip("uvloop").run


def test_run_in_dhaga_returns_and_raises_what_the_function_does(host: Runner) -> None:
    def parks(value: Any, *, twice: bool = False) -> Any:
        dhaga.sleep(0)
        if isinstance(value, BaseException):
            raise value
        return value * 2 if twice else value

    async def main() -> list[Any]:
        seen = [await run_in_dhaga(parks, 1), await run_in_dhaga(parks, 2, twice=True)]
        for error in (ValueError(), dhaga.Cancelled("itself"), asyncio.CancelledError("itself")):
            with pytest.raises(type(error)) as raised:
                await run_in_dhaga(parks, error)
            assert raised.value is error
        return seen + await asyncio.gather(*[run_in_dhaga(parks, n) for n in range(100)])

    assert host(main()) == [1, 4, *range(100)]


def test_run_in_dhaga_shares_the_coroutines_variables(host: Runner) -> None:
    async def nested() -> str:
        await asyncio.sleep(0)
        variable.set(variable.get() + ", coroutine")
        return variable.get()

    def in_dhaga() -> str:
        variable.set(variable.get() + ", dhaga")
        dhaga.sleep(0)
        return dhaga.await_(nested())

    async def main() -> tuple[str, str]:
        variable.set("main")
        return await run_in_dhaga(in_dhaga), variable.get()

    assert host(main()) == ("main, dhaga, coroutine",) * 2


def test_a_cancelled_run_in_dhaga_cancels_the_dhaga_and_waits_for_its_end(host: Runner) -> None:
    trace: list[str] = []

    def works() -> None:
        try:
            dhaga.sleep(1000)
        finally:
            dhaga.sleep(0.001)
            trace.append("put away")

    def swallows() -> str:
        try:
            dhaga.sleep(1000)
        except dhaga.Cancelled as error:
            return f"value {error.reason}"
        return ""

    async def main() -> None:
        task = asyncio.ensure_future(run_in_dhaga(works))
        await asyncio.sleep(0.001)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled() and trace == ["put away"]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await run_in_dhaga(works)
        assert trace == ["put away"] * 2
        task = asyncio.ensure_future(run_in_dhaga(swallows))
        await asyncio.sleep(0.001)
        task.cancel("enough")
        assert await task == "value enough"

    host(main())


def test_run_in_dhaga_of_a_scheduler_in_another_thread(host: Runner) -> None:
    def works() -> tuple[str, str]:
        dhaga.sleep(0.001)
        return threading.current_thread().name, variable.get()

    async def main(other: dhaga.Scheduler) -> Any:
        variable.set("main")
        cancelled = asyncio.ensure_future(run_in_dhaga(dhaga.sleep, 1000, scheduler=other))
        await asyncio.sleep(0.001)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return await run_in_dhaga(works, scheduler=other)

    with dhaga.Scheduler("other") as other:
        assert host(main(other)) == ("other", "main")


def test_a_dhaga_is_whatever_asyncio_takes_for_awaitable(host: Runner) -> None:
    async def main() -> list[Any]:
        dhagas = [dhaga.spawn(lambda n=n: dhaga.sleep(0) or n) for n in range(4)]
        first = asyncio.ensure_future(dhagas[0])
        return [
            await first,
            await asyncio.wait_for(dhagas[1], 10),
            *await asyncio.gather(*dhagas[2:]),
        ]

    assert host(main()) == [0, 1, 2, 3]


def test_doors_may_be_nested(host: Runner) -> None:
    async def down(depth: int) -> int:
        await asyncio.sleep(0)
        return await run_in_dhaga(up, depth - 1) if depth else 0

    def up(depth: int) -> int:
        return 1 + dhaga.await_(down(depth))

    assert host(down(20)) == 20
