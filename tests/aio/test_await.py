"""await_(): a dhaga waits for coroutines, Tasks and Futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
from typing import Any

import pytest

import dhaga
from dhaga.aio import enter, run_in_dhaga
from dhaga.aio._await import EAGER
from dhaga.testing import virtual_clock
from tests.kit.asyncio_places import (
    Manager,
    Runner,
    counts,
    in_the_main_codes_scheduler,
    raises,
    returns,
)
from tests.kit.scripts import run

# ---- dhaga -> coroutine


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_await_returns_what_a_coroutine_returns(call: Runner, factory: Any, steps: int) -> None:
    def fn() -> list[Any]:
        factory()
        return [dhaga.await_(returns(n, steps)) for n in range(3)]

    assert call(fn) == [0, 1, 2]


@pytest.mark.parametrize("steps", [0, 1])
def test_await_raises_what_a_coroutine_raises(call: Runner, factory: Any, steps: int) -> None:
    def fn() -> list[bool]:
        factory()
        seen = []
        for error in (ValueError("1"), dhaga.Cancelled("2"), TimeoutError(3), asyncio.CancelledError("4")):
            with pytest.raises(type(error)) as raised:
                dhaga.await_(raises(error, steps))
            seen.append(raised.value.args == error.args)
        return seen

    assert call(fn) == [True] * 4


def test_a_coroutine_runs_as_a_task_of_the_schedulers_loop_from_its_first_step_on(call: Runner, factory: Any) -> None:
    async def looks() -> list[Any]:
        seen: list[Any] = []
        for _ in range(3):
            task = asyncio.current_task()
            assert isinstance(task, asyncio.Task)
            seen.append((task, task.get_coro(), asyncio.get_running_loop()))
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        return seen

    def fn() -> None:
        factory()
        coroutine = looks()
        first, *others = dhaga.await_(coroutine)
        assert others == [first, first]
        assert first[1:] == (coroutine, dhaga.current().scheduler.loop)

    call(fn)


def test_await_takes_futures_tasks_and_objects_with_await(call: Runner) -> None:
    class Custom:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "custom"

    def fn() -> list[Any]:
        loop = dhaga.current().scheduler.loop
        future = loop.create_future()
        loop.call_soon(future.set_result, "future")
        done = loop.create_future()
        done.set_result("done")
        executor: concurrent.futures.Future[str] = concurrent.futures.Future()
        thread = threading.Thread(target=lambda: executor.set_result("of a thread"))
        thread.start()
        task = loop.create_task(returns("task"))
        seen = [dhaga.await_(a) for a in (future, done, executor, task, Custom(), dhaga.spawn(str, "dhaga"))]
        thread.join()
        return seen

    assert call(fn) == ["future", "done", "of a thread", "task", "custom", "dhaga"]


def test_awaiting_what_is_done_does_not_park() -> None:
    done: asyncio.Future[int] = asyncio.Future(loop=dhaga.current().scheduler.loop)
    done.set_result(1)
    other = dhaga.spawn(int)
    assert dhaga.await_(done) == 1 and other.state == "NEW"
    other.join()


def test_a_future_of_a_loop_in_another_thread_is_bridged(call: Runner) -> None:
    ready: concurrent.futures.Future[Any] = concurrent.futures.Future()

    async def elsewhere() -> None:
        loop = asyncio.get_running_loop()
        leave = loop.create_future()
        first, second, third = loop.create_future(), loop.create_future(), asyncio.ensure_future(asyncio.sleep(1000))
        loop.call_later(0.01, first.set_result, "first")
        ready.set_result((loop, leave, first, second, third))
        await leave
        assert third.cancelled() and not second.done()

    thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
    thread.start()

    def fn() -> None:
        loop, leave, first, _, third = dhaga.await_(ready)
        assert dhaga.await_(first) == "first"
        with pytest.raises(TimeoutError):
            dhaga.await_(third, timeout=0.01)
        with pytest.raises(TimeoutError):
            dhaga.await_(asyncio.run_coroutine_threadsafe(asyncio.sleep(1000), loop), timeout=0.01)
        loop.call_soon_threadsafe(leave.set_result, None)

    call(fn)
    thread.join()


def test_a_concurrent_future_is_cancelled_when_its_await_ends_by_a_timeout_or_cancel() -> None:
    def works(future: concurrent.futures.Future[int], timeout: float | None) -> bool:
        with contextlib.suppress(TimeoutError, dhaga.Cancelled):
            dhaga.await_(future, timeout)
        return future.cancelled()

    timed_out, cancelled = (dhaga.spawn(works, concurrent.futures.Future[int](), timeout) for timeout in (0.001, None))
    dhaga.sleep(0)
    cancelled.cancel()
    assert timed_out.result() and cancelled.result()


def test_a_future_of_a_loop_that_does_not_run_is_refused() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    with pytest.raises(RuntimeError, match="does not run: nothing would complete it"):
        dhaga.await_(future)
    loop.close()


@pytest.mark.parametrize("futures", [1, 2, 5])
def test_the_caller_goes_on_when_the_task_has_ended(call: Runner, futures: int) -> None:
    """Where that has waited once, in the same turn of the loop; each further wait is noticed as well."""
    trace: list[str] = []

    async def waits() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(futures):
            future = loop.create_future()
            loop.call_soon(end, future)
            await future
        trace.append("ended")

    def end(future: asyncio.Future[None]) -> None:
        future.set_result(None)
        asyncio.get_running_loop().call_soon(trace.append, "turn")

    def fn() -> None:
        dhaga.await_(waits())
        trace.append("goes on")

    call(fn)
    if EAGER and futures == 1:
        assert trace[:2] == ["ended", "goes on"]
    assert [each for each in trace if each != "turn"] == ["ended", "goes on"]


def test_futures_whose_callbacks_are_called_at_once_are_awaited(call: Runner) -> None:
    class AtOnce(asyncio.Future[str]):
        def __init__(self) -> None:
            super().__init__(loop=asyncio.get_running_loop())
            self.called: list[Any] = []

        def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
            self.called.append(fn)

        def set_result(self, value: str) -> None:
            super().set_result(value)
            for each in self.called:
                each(self)

    async def waits() -> str:
        future = AtOnce()
        asyncio.get_running_loop().call_soon(future.set_result, "value")
        return await future

    assert call(lambda: dhaga.await_(waits())) == "value"


def test_other_dhagas_and_tasks_go_on_meanwhile() -> None:
    trace: list[str] = []

    async def coroutine(name: str) -> None:
        for _ in range(2):
            await asyncio.sleep(1)
            trace.append(name)

    with virtual_clock() as clock:
        loop = dhaga.current().scheduler.loop
        task = loop.create_task(coroutine("task"))
        d = dhaga.spawn(dhaga.await_, coroutine("awaited"))
        other = dhaga.spawn(lambda: dhaga.sleep(1.5) or trace.append("dhaga"))
        dhaga.await_(task)
        other.join()
        d.join()
        assert clock() == 2
    assert trace == ["task", "awaited", "dhaga", "task", "awaited"]


def test_a_dump_shows_what_is_awaited() -> None:
    with virtual_clock():
        d = dhaga.spawn(dhaga.await_, asyncio.sleep(1), name="d")
        dhaga.sleep(0.5)
        assert repr(d) == "<Dhaga d WAITING await>" and "sleep()" in repr(d.waits_on)
        d.join()


def test_priorities_count_for_the_first_step() -> None:
    trace: list[str] = []

    async def coroutine(name: str) -> None:
        trace.append(name)

    with virtual_clock():
        dhagas = [dhaga.spawn(lambda p=p: dhaga.await_(coroutine(p.name)), priority=p) for p in (dhaga.LOW, dhaga.HIGH)]
        for d in dhagas:
            d.join()
    assert trace == ["HIGH", "LOW"]


# ---- what is refused


def test_parking_in_a_coroutine_names_the_ways_out(call: Runner, factory: Any) -> None:
    async def parks() -> list[str]:
        seen = []
        for step in range(2):
            for wrong in (
                lambda: dhaga.sleep(1),
                lambda: dhaga.await_(returns(1)),
                lambda: enter(Manager([])).__enter__(),
            ):
                with pytest.raises(dhaga.ParkError, match=r"in a coroutine await .* await dhaga\.aio\.run_in_dhaga\("):
                    wrong()
                seen.append(step)
            await asyncio.sleep(0)
        return seen

    def fn() -> Any:
        factory()
        return dhaga.await_(parks())

    assert call(fn) == [0, 0, 0, 1, 1, 1]


def test_await_in_a_callback_is_refused_and_the_coroutine_closed(recwarn: Any) -> None:
    seen: list[Any] = []

    def callback() -> None:
        coroutine: Any = returns(1)
        with pytest.raises(dhaga.ParkError, match="run_in_dhaga"):
            dhaga.await_(coroutine)
        seen.append(coroutine.cr_frame)

    dhaga.current().scheduler.loop.call_soon(callback)
    dhaga.sleep(0.001)
    gc.collect()
    assert seen == [None] and not recwarn.list


def test_a_coroutine_is_awaited_once(call: Runner, factory: Any) -> None:
    def fn() -> None:
        factory()
        coroutine = returns(1)
        assert dhaga.await_(coroutine) == 1
        with pytest.raises(RuntimeError, match="already awaited"):
            dhaga.await_(coroutine)
        coroutine = returns(2, 3)
        task = dhaga.current().scheduler.loop.create_task(coroutine)
        dhaga.await_(returns(None))
        with pytest.raises(RuntimeError, match="is awaited already: call the function again"):
            dhaga.await_(coroutine)
        assert dhaga.await_(task) == 2

    call(fn)


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        (3, "cannot be awaited: await_ takes a coroutine, a Future or"),
        (None, "cannot be awaited"),
        (returns, r"cannot be awaited: call it: await_\(fn\("),
        (counts([]), "cannot be awaited: iterate over it.*aiter_"),
        (Manager([]), "cannot be awaited: enter it: with.*enter"),
    ],
)
def test_what_cannot_be_awaited_is_refused_with_what_to_do(bad: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        dhaga.await_(bad)


def test_a_dhaga_cannot_await_itself() -> None:
    d = dhaga.spawn(lambda: dhaga.await_(dhaga.current()))
    with pytest.raises(RuntimeError, match="own end"):
        d.result()


def test_spawn_refuses_coroutine_functions_and_coroutines(recwarn: Any) -> None:
    with pytest.raises(TypeError, match="call await_ or run_in_dhaga"):
        dhaga.spawn(returns, 1)
    with pytest.raises(TypeError, match=r"in a dhaga call await_\("):
        dhaga.spawn(returns(1))
    with pytest.raises(TypeError, match="call await_ or run_in_dhaga"):
        asyncio.run(run_in_dhaga(returns, 1))
    gc.collect()
    assert not recwarn.list


def test_a_task_factory_that_fails_is_heard(recwarn: Any) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("no tasks today")

    def fn() -> None:
        dhaga.current().scheduler.loop.set_task_factory(fails)
        with pytest.raises(ValueError, match="no tasks today"):
            dhaga.await_(returns(1))

    in_the_main_codes_scheduler(fn)
    gc.collect()
    assert not recwarn.list


def test_awaits_leave_no_cycles() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError

    def fn() -> None:
        for make in (lambda: returns(1, 0), lambda: returns(1), fails):
            with contextlib.suppress(ValueError):
                dhaga.await_(make())

    def tasks() -> list[Any]:
        return [each for each in gc.get_objects() if issubclass(type(each), asyncio.Task)]

    fn()
    gc.collect()
    before = tasks()  # of tests before this one
    gc.disable()
    try:
        fn()
        dhaga.sleep(0.001)  # the callback that has woken the main code ends
        assert tasks() == before
    finally:
        gc.enable()


async def raises_value_error() -> None:
    await asyncio.sleep(0)
    raise ValueError


def enters_a_timeout() -> None:
    with dhaga.aio.enter(lambda: asyncio.timeout(10)):
        dhaga.await_(returns(1, 1))


@pytest.mark.parametrize(
    "way",
    [
        lambda: dhaga.await_(returns(1)),
        lambda: dhaga.await_(returns(1, 1)),
        lambda: dhaga.await_(raises_value_error()),
        lambda: dhaga.await_(asyncio.sleep(10), timeout=0),
        enters_a_timeout,
        lambda: list(dhaga.aio.aiter_(counts([]))),
    ],
)
def test_a_dhaga_that_ends_after_an_await_leaves_no_cycle(way: Any) -> None:
    def works() -> None:
        with contextlib.suppress(ValueError, TimeoutError):
            way()

    def collected() -> int:
        dhaga.spawn(works).result()
        dhaga.sleep(0.001)  # the callback that has woken it ends
        return gc.collect()

    collected()
    gc.disable()
    try:
        assert collected() == 0
    finally:
        gc.enable()


def test_asyncio_debug_mode_has_nothing_to_say(monkeypatch: Any) -> None:
    outcome = run(
        """
        import asyncio, logging
        import dhaga
        from dhaga.aio import enter, aiter_, run_in_dhaga

        logging.basicConfig(format="%(message)s", level=logging.WARNING)

        async def counts():
            for n in range(3):
                await asyncio.sleep(0)
                yield n

        def works(n):
            with enter(lambda: asyncio.timeout(10)):
                return sum(aiter_(counts())) + dhaga.await_(asyncio.sleep(0, n))

        async def main():
            asyncio.get_running_loop().slow_callback_duration = 10
            return sum(await asyncio.gather(*[run_in_dhaga(works, n) for n in range(10)]))

        print(asyncio.run(main()), dhaga.spawn(works, 1).result())
        """,
        *("-X", "dev", "-W", "error"),
        PYTHONASYNCIODEBUG="1",
    )
    assert (outcome.status, outcome.lines, outcome.err) == (0, ["75 4"], "")


@pytest.mark.parametrize("when", ["before the end of the await", "while it is cancelled"])
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_timeout_and_a_cancel_end_the_await_of_a_future_whose_loop_has_stopped(how: str, when: str) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    never: asyncio.Future[None] = loop.create_future()
    busy = threading.Event()

    def stop() -> None:
        loop.call_soon_threadsafe(loop.stop)
        busy.set()
        thread.join()

    def awaits() -> None:
        with pytest.raises(TimeoutError if how == "timeout" else dhaga.Cancelled):
            dhaga.await_(never, timeout=0.01 if how == "timeout" else None)

    with dhaga.Scheduler() as scheduler:
        d = scheduler.spawn(awaits)
        scheduler.spawn(dhaga.sleep).join()
        if when == "while it is cancelled":
            loop.call_soon_threadsafe(busy.wait, 30)  # the loop stops before it gets to the cancel
        else:
            stop()
        if how == "cancel":
            d.cancel()
            scheduler.spawn(dhaga.sleep).join()
        else:
            scheduler.spawn(dhaga.sleep, 0.02).join()
        if thread.is_alive():
            stop()
        d.result(30)
    loop.close()


class PoolOfLoop:
    """Takes its loop as it is made, as asyncpg's pool does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.made_on: Any = loop.create_future()
        self.lock = asyncio.Lock()
        self.lock._loop = loop  # type: ignore[attr-defined]  # as of 3.10 it takes the first that it waits on

    async def wait_for_future(self) -> None:
        await self.made_on

    async def wait_for_lock(self) -> None:
        await self.lock.acquire()
        await self.lock.acquire()

    async def __aenter__(self) -> Any:
        self.made_on.set_result("ready")
        return await self.made_on

    async def __aexit__(self, *error: object) -> None:
        pass


def test_what_was_made_on_another_loop_says_how_to_make_it_on_this_one() -> None:
    loop = asyncio.new_event_loop()
    try:
        pool = PoolOfLoop(loop)
        for wait in pool.wait_for_future, pool.wait_for_lock:
            with pytest.raises(RuntimeError) as info:
                dhaga.await_(wait())
            (note,) = info.value.__notes__
            assert "dhaga.aio.enter(lambda: ...)" in note
    finally:
        loop.close()
    with enter(lambda: PoolOfLoop(asyncio.get_running_loop())) as answer:
        assert answer == "ready"


def test_other_runtime_errors_of_a_coroutine_get_no_note() -> None:
    async def wrong() -> None:
        raise RuntimeError("a different loop")

    with pytest.raises(RuntimeError) as info:
        dhaga.await_(wrong())
    assert not hasattr(info.value, "__notes__")
