"""Context variables of a dhaga and of the coroutines that it awaits."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import dhaga
from tests.kit.asyncio_places import (
    Runner,
    variable,
)


def test_context_variables_pass_both_ways(call: Runner, factory: Any) -> None:
    async def sets(value: str) -> str:
        seen = variable.get()
        variable.set(f"{value} early")
        await asyncio.sleep(0)
        token = variable.set("for a while")
        await asyncio.sleep(0)
        variable.reset(token)
        await asyncio.sleep(0)
        variable.set(value)
        return seen

    def fn() -> list[str]:
        factory()
        variable.set("of the dhaga")
        first = dhaga.await_(sets("of the coroutine"))
        return [first, variable.get(), dhaga.await_(sets("last")), variable.get()]

    assert contextvars.copy_context().run(call, fn) == ["of the dhaga", "of the coroutine", "of the coroutine", "last"]


def test_context_variables_pass_both_ways_within_a_context_run(call: Runner, factory: Any) -> None:
    """A context that is entered cannot be entered once more: there the Task has a copy, which is brought back."""
    other: contextvars.ContextVar[int] = contextvars.ContextVar("other")

    async def sets() -> str:
        await asyncio.sleep(0)
        seen = variable.get()
        variable.set("of the coroutine")
        other.set(1)
        return seen

    def in_context() -> list[Any]:
        variable.set("inner")
        return [dhaga.await_(sets()), variable.get(), other.get()]

    def fn() -> list[Any]:
        factory()
        variable.set("outer")
        return [*contextvars.copy_context().run(in_context), variable.get(), other.get(None)]

    expected = ["inner", "of the coroutine", 1, "outer", None]
    assert contextvars.copy_context().run(call, fn) == expected


def test_many_await_at_once_each_with_its_own_variables(call: Runner, factory: Any) -> None:
    async def coroutine(n: int) -> str:
        for step in range(n % 4):
            assert variable.get() == f"{n} {step}"
            variable.set(f"{n} {step + 1}")
            await asyncio.sleep(0)
        return variable.get()

    def works(n: int) -> tuple[str, str]:
        variable.set(f"{n} 0")
        return dhaga.await_(coroutine(n)), variable.get()

    def fn() -> list[Any]:
        factory()
        return [d.result() for d in [dhaga.spawn(works, n) for n in range(200)]]

    assert call(fn) == [(f"{n} {n % 4}",) * 2 for n in range(200)]
