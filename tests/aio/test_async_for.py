"""aiter_(): asynchronous iterations of a dhaga, each in one Task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import dhaga
from dhaga.aio import aiter_
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.kit.asyncio_places import (
    PLACES,
    Runner,
    counts,
)
from tests.kit.parking import victim


@pytest.mark.parametrize("call", PLACES)
def test_aiter_iterates_in_one_task_and_closes_at_the_end(call: Runner, factory: Any) -> None:
    def fn() -> list[Any]:
        factory()
        trace: list[Any] = []
        trace += aiter_(counts(trace))
        return trace

    assert call(fn) == [0, 1, 2, 3, 4, "closed"]


def test_an_iteration_that_ends_early_closes_the_generator_at_once(call: Runner) -> None:
    def fn() -> list[Any]:
        trace: list[Any] = []
        for n in aiter_(counts(trace)):
            if n == 2:
                break
        trace.append("after the break")
        iterator = aiter_(counts(trace))
        next(iterator)
        iterator.close()  # type: ignore[attr-defined]
        trace.append("after the close")
        with pytest.raises(ValueError):
            for _ in aiter_(counts(trace)):
                raise ValueError
        aiter_(counts(trace))  # was not begun: nothing is to be closed
        return trace

    assert call(fn) == ["closed", "after the break", "closed", "after the close", "closed"]


def test_an_iterator_that_is_dropped_where_nobody_can_wait_is_closed_all_the_same() -> None:
    trace: list[Any] = []
    with virtual_clock():
        kept = [aiter_(counts(trace, 1))]
        assert next(kept[0]) == 0
        dhaga.current().scheduler.loop.call_soon(kept.clear)
        dhaga.sleep(10)
    assert trace == ["closed"]


def test_aiter_with_a_timeout_and_an_iterable_that_fails() -> None:
    trace: list[Any] = []

    class Fails:
        def __aiter__(self) -> Any:
            return self

        async def __anext__(self) -> int:
            raise OSError("bad")

    with virtual_clock():
        with pytest.raises(TimeoutError):
            list(aiter_(counts(trace, 2), timeout=1))
        with pytest.raises(OSError, match="bad"):
            list(aiter_(Fails()))
        assert list(aiter_(counts(trace, 1, 2), timeout=1.5)) == [0, 1]
    assert trace == ["closed", "closed"]


def test_a_cancel_at_any_park_of_an_iteration_closes_it() -> None:
    def scenario() -> Any:
        trace: list[Any] = []

        def works() -> None:
            try:
                for n in aiter_(counts(trace, 1, 2)):
                    dhaga.sleep(1)
                    trace.append(n)
            except asyncio.CancelledError:  # where the test's time-out strikes what has none
                pass

        def check() -> None:
            assert [step for step in trace if step != "closed"] in ([], [0], [0, 1])
            assert trace.count("closed") <= 1

        return victim(works), check

    assert cancel_at_every_park(scenario) >= 4
