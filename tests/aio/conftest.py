"""Where the tests of the asyncio bridge run: with and without a loop of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from tests.kit.asyncio_places import (
    PLACES,
    Runner,
    in_main_code,
)


@pytest.fixture(params=[in_main_code, *PLACES])
def call(request: pytest.FixtureRequest) -> Runner:
    """Calls a function where it may park: in main code, and in dhagas on each kind of loop."""
    return request.param


@pytest.fixture(params=["eager", "by a task factory"])
def factory(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Sets the loop up to make Tasks in the other way, which is also that of Python 3.11."""

    def task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        return asyncio.Task(coroutine, loop=loop, **options)

    def set_up() -> None:
        if request.param == "by a task factory":
            dhaga.current().scheduler.loop.set_task_factory(task)

    return set_up
