"""enter(): asynchronous blocks of a dhaga, each in one Task, and what is common to blocks and iterations."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
from typing import Any

import pytest

import dhaga
from dhaga.aio import aiter_, enter
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.kit.asyncio_places import (
    PLACES,
    Manager,
    Runner,
    counts,
    raises,
    returns,
    variable,
)
from tests.kit.parking import victim


def test_enter_enters_and_leaves_in_one_task(call: Runner, factory: Any) -> None:
    class Quick(Manager):
        async def __aenter__(self) -> str:
            await asyncio.sleep(0)
            self.task = asyncio.current_task()
            self.token = variable.set("entered")
            return "value"

    def fn() -> list[Any]:
        factory()
        trace: list[Any] = []
        variable.set("before")
        with enter(Quick(trace)) as value:
            trace += [value, variable.get()]
        with pytest.raises(ValueError), enter(Quick(trace)):
            raise ValueError
        with enter(Quick(trace, handles=True)):
            raise ValueError
        return [*trace, variable.get()]

    original, asyncio.sleep = asyncio.sleep, lambda seconds: original(0)
    try:
        seen = contextvars.copy_context().run(call, fn)
    finally:
        asyncio.sleep = original
    assert seen == ["value", "entered", "left None", "left ValueError", "left ValueError", "before"]


def test_a_cancel_of_the_block_reaches_the_manager_as_asyncios() -> None:
    trace: list[Any] = []

    def works() -> None:
        with enter(Manager(trace)):
            dhaga.sleep(1000)

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(2)
        d.cancel("enough")
        with pytest.raises(dhaga.Cancelled, match="enough"):
            d.result()
        with pytest.raises(TimeoutError), dhaga.Timeout(2), enter(Manager(trace)):
            dhaga.sleep(1000)
    assert trace == ["entered", "left CancelledError"] * 2


def test_a_cancel_that_is_pending_at_the_end_of_a_block_strikes_there() -> None:
    """Not in the midst of the manager's end, which would then be cut short."""
    trace: list[Any] = []

    def works() -> None:
        with enter(Manager(trace)):
            dhaga.current().cancel("late")

    with virtual_clock():
        with pytest.raises(dhaga.Cancelled, match="late"):
            dhaga.spawn(works).result()
    assert trace == ["entered", "left CancelledError"]


def test_a_cancel_that_strikes_the_end_of_a_block_is_raised_there_and_at_no_iterations_end() -> None:
    """A generator is closed where an error would be lost: there it stays pending."""
    trace: list[Any] = []

    def leaves_a_block() -> None:
        with enter(Manager(trace)):
            pass
        trace.append("went on")

    def leaves_an_iteration() -> None:
        for _ in aiter_(counts(trace, 1)):
            break
        trace.append("went on")
        dhaga.sleep(0)
        trace.append("lost")

    with virtual_clock():
        for fn in (leaves_a_block, leaves_an_iteration):
            d = dhaga.spawn(fn)
            dhaga.sleep(1.5)
            d.cancel("in the end")
            with pytest.raises(dhaga.Cancelled, match="in the end"):
                d.result()
    assert trace == ["entered", "went on"]


def test_a_second_cancel_in_the_end_of_a_block_is_not_lost() -> None:
    trace: list[Any] = []

    def works() -> None:
        for _ in range(2):
            try:
                with enter(Manager(trace)):
                    dhaga.sleep(1000)
            except dhaga.Cancelled as error:
                trace.append(error.reason)

    with virtual_clock():
        d = dhaga.spawn(works)
        for seconds, reason in ((1.4, "first"), (0.6, "second")):
            dhaga.sleep(seconds)
            d.cancel(reason)
        d.join()
    assert trace == ["entered", "first", "second"]


def test_an_asyncio_timeout_of_a_block_within_a_shield_strikes_and_one_outside_waits() -> None:
    def works() -> float:
        with dhaga.shield(), pytest.raises(TimeoutError), enter(lambda: asyncio.timeout(1)):
            dhaga.sleep(1000)
        with pytest.raises(TimeoutError), enter(lambda: asyncio.timeout(1)):
            with dhaga.shield():
                dhaga.sleep(2)
            dhaga.sleep(1000)
        return clock()

    with virtual_clock() as clock:
        assert dhaga.spawn(works).result() == 3


def test_a_block_in_a_cancelled_scope_is_left_properly() -> None:
    trace: list[Any] = []
    with virtual_clock():
        with dhaga.move_on_after(2), enter(Manager(trace)):
            dhaga.sleep(1000)
    assert trace == ["entered", "left CancelledError"]


def test_enter_with_a_timeout_and_with_a_manager_that_fails() -> None:
    trace: list[Any] = []

    class Bad(Manager):
        async def __aenter__(self) -> str:
            raise OSError("bad")

    class BadEnd(Manager):
        async def __aexit__(self, *_: Any) -> bool:
            raise OSError("bad end")

    with virtual_clock():
        with pytest.raises(TimeoutError), enter(Manager(trace), timeout=0.5):
            trace.append("not reached")
        with pytest.raises(OSError, match="bad"), enter(Bad(trace)):
            trace.append("not reached")
        with pytest.raises(OSError, match="bad end"), enter(BadEnd(trace)):
            trace.append("body")
        dhaga.sleep(1)
    assert trace == ["entered", "body"]


def test_a_cancel_at_any_park_of_a_block_leaves_it() -> None:
    def scenario() -> Any:
        trace: list[Any] = []

        def works() -> None:
            with enter(Manager(trace)):
                dhaga.sleep(1)

        def check() -> None:
            assert trace in ([], ["entered"], ["entered", "left CancelledError"], ["entered", "left None"])

        def bears() -> None:
            with contextlib.suppress(asyncio.CancelledError):  # where the test's time-out strikes what has none
                works()

        return victim(bears), check

    assert cancel_at_every_park(scenario) >= 3


@pytest.mark.parametrize("call", PLACES)
def test_asyncio_timeout_bounds_a_block_of_a_dhaga(call: Runner) -> None:
    def fn() -> list[Any]:
        seen: list[Any] = []
        with enter(lambda: asyncio.timeout(1000)) as bound:
            dhaga.sleep(0)
            dhaga.await_(asyncio.sleep(0))
        seen.append(bound.expired())
        for wait in (lambda: dhaga.sleep(1000), lambda: dhaga.await_(asyncio.sleep(1000))):
            with pytest.raises(TimeoutError), enter(lambda: asyncio.timeout(0.01)):
                wait()
        with enter(lambda: asyncio.timeout(1000)):
            with pytest.raises(TimeoutError), enter(lambda: asyncio.timeout(0.01)):
                dhaga.sleep(1000)
            dhaga.sleep(0)
        dhaga.sleep(0)
        return seen

    assert call(fn) == [False]


def test_a_cancel_wins_over_an_asyncio_timeout_that_has_expired_too() -> None:
    def works() -> None:
        with enter(lambda: asyncio.timeout(1)):
            try:
                dhaga.sleep(1000)
            finally:
                dhaga.sleep(1000)

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(2)
        d.cancel("really")
        with pytest.raises(dhaga.Cancelled, match="really"):
            d.result()


def test_a_task_group_is_a_block_of_a_dhaga(call: Runner) -> None:
    def fn() -> list[Any]:
        with enter(asyncio.TaskGroup()) as group:
            tasks = [group.create_task(returns(n)) for n in range(3)]
        seen = [task.result() for task in tasks]
        with pytest.raises(ExceptionGroup) as raised, enter(asyncio.TaskGroup()) as group:
            group.create_task(raises(ValueError("child")))
            dhaga.sleep(1000)
        return [*seen, [repr(error) for error in raised.value.exceptions]]

    assert call(fn) == [0, 1, 2, ["ValueError('child')"]]


def test_a_task_group_in_a_cancelled_dhaga_cancels_its_children() -> None:
    trace: list[str] = []

    async def child() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            trace.append("child")

    def works() -> None:
        with enter(asyncio.TaskGroup()) as group:
            group.create_task(child())
            dhaga.sleep(1000)

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel("enough")
        with pytest.raises(dhaga.Cancelled, match="enough"):
            d.result()
    assert trace == ["child"]


def test_a_block_that_is_dropped_where_nobody_can_wait_is_left_all_the_same() -> None:
    trace: list[Any] = []

    def generator() -> Any:
        with enter(Manager(trace)) as value:
            yield value

    with virtual_clock():
        kept = [generator()]
        assert next(kept[0]) == "value"
        dhaga.current().scheduler.loop.call_soon(kept.clear)
        dhaga.sleep(10)
    assert trace == ["entered", "left GeneratorExit"]


def test_enter_and_aiter_refuse_what_is_not_theirs_and_close_it(recwarn: Any) -> None:
    with pytest.raises(TypeError, match="enter it with a plain with"):
        enter(contextlib.suppress(ValueError))
    with pytest.raises(TypeError, match="no __aenter__"):
        enter(returns(1))
    with pytest.raises(TypeError, match="plain for"):
        aiter_([1])
    with pytest.raises(TypeError, match="no __aiter__"):
        aiter_(returns(1))
    block = enter(Manager([]))
    with virtual_clock(), block:
        with pytest.raises(RuntimeError, match="already entered"):
            block.__enter__()
    gc.collect()
    assert not recwarn.list


def test_what_was_begun_in_one_scheduler_does_not_go_on_in_another() -> None:
    iterator = aiter_(counts([]))
    assert next(iterator) == 0

    def goes_on() -> None:
        with pytest.raises(RuntimeError, match="cannot continue it"):
            next(iterator)

    with dhaga.Scheduler("other") as other:
        other.spawn(goes_on).result()
    dhaga.sleep(0.001)
