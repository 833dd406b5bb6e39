"""Places in which the tests of the asyncio bridge run, and coroutines for these tests."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import dhaga

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


Runner = Callable[..., Any]


def in_the_main_codes_scheduler(fn: Callable[..., Any], *args: Any) -> Any:
    return dhaga.spawn(fn, *args).result()


def in_a_thread_of_its_own(fn: Callable[..., Any], *args: Any) -> Any:
    with dhaga.Scheduler("own") as scheduler:
        return scheduler.spawn(fn, *args).result()


def in_a_thread_with_uvloop(fn: Callable[..., Any], *args: Any) -> Any:
    loop = pytest.importorskip("uvloop").new_event_loop()
    with dhaga.Scheduler("uv", loop=loop) as scheduler:
        return scheduler.spawn(fn, *args).result()


def in_a_guest_of_asyncio(fn: Callable[..., Any], *args: Any) -> Any:
    async def main() -> Any:
        return await dhaga.spawn(fn, *args)

    return asyncio.run(main())


def in_a_guest_of_uvloop(fn: Callable[..., Any], *args: Any) -> Any:
    async def main() -> Any:
        return await dhaga.spawn(fn, *args)

    return pytest.importorskip("uvloop").run(main())


def in_main_code(fn: Callable[..., Any], *args: Any) -> Any:
    return fn(*args)


PLACES = [
    in_the_main_codes_scheduler,
    in_a_thread_of_its_own,
    in_a_thread_with_uvloop,
    in_a_guest_of_asyncio,
    in_a_guest_of_uvloop,
]


async def returns(value: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        await asyncio.sleep(0)
    return value


async def raises(error: BaseException, steps: int = 1) -> None:
    await returns(None, steps)
    raise error


class Manager:
    """A context manager that records its entry and exit, and checks that both run in one Task."""

    def __init__(self, trace: list[Any], handles: bool = False) -> None:
        self.trace = trace
        self.handles = handles

    async def __aenter__(self) -> str:
        self.task = asyncio.current_task()
        await asyncio.sleep(1)
        self.token = variable.set("entered")
        self.trace.append("entered")
        return "value"

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        assert self.task is asyncio.current_task()
        assert (kind is None) == (error is None) and (error is None or type(error) is kind)
        await asyncio.sleep(1)
        variable.reset(self.token)
        self.trace.append(f"left {kind and kind.__name__}")
        return self.handles


async def counts(trace: list[Any], seconds: float = 0, stop: int = 5) -> AsyncIterator[int]:
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(1000):
            for n in range(stop):
                await asyncio.sleep(seconds)
                yield n
    finally:
        await asyncio.sleep(seconds)
        assert asyncio.current_task() is task
        trace.append("closed")
