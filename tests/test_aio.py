"""The door to asyncio, on each kind of loop: dhagas that await, coroutines that call dhagas, and what is refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import gc
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import dhaga
from dhaga.aio import aiter_, enter, run_in_dhaga
from dhaga.testing import cancel_at_every_park, virtual_clock
from tests.parking import victim
from tests.scripts import Program, run

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


@pytest.fixture(params=[in_main_code, *PLACES])
def call(request: pytest.FixtureRequest) -> Runner:
    """Calls a function where it may park: in main code, and in dhagas on each kind of loop."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=["eager", "by a task factory"])
def factory(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Sets the loop up to make Tasks in the other way, which is also that of Python 3.11."""

    def task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        return asyncio.Task(coroutine, loop=loop, **options)

    def set_up() -> None:
        if request.param == "by a task factory":
            dhaga.current().scheduler.loop.set_task_factory(task)

    return set_up


async def returns(value: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        await asyncio.sleep(0)
    return value


async def raises(error: BaseException, steps: int = 1) -> None:
    await returns(None, steps)
    raise error


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


def test_a_future_of_a_loop_that_does_not_run_is_refused() -> None:
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    with pytest.raises(RuntimeError, match="does not run: nobody would complete it"):
        dhaga.await_(future)
    loop.close()


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
        dhagas = [
            dhaga.spawn(lambda p=p: dhaga.await_(coroutine(p.name)), priority=p)  # type: ignore[misc]
            for p in (dhaga.LOW, dhaga.HIGH)
        ]
        for d in dhagas:
            d.join()
    assert trace == ["HIGH", "LOW"]


# ---- cancels and timeouts


def test_a_cancel_reaches_the_coroutine_whose_finally_has_run_before_it_is_raised() -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            trace.append("cancelled")
            raise
        finally:
            await asyncio.sleep(1)
            trace.append("put away")

    def works() -> None:
        try:
            dhaga.await_(coroutine())
        except dhaga.Cancelled as error:
            trace.append(f"dhaga: {error.reason}")
            raise

    with virtual_clock() as clock:
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel("enough")
        d.join()
        assert clock() == 2
    assert trace == ["cancelled", "put away", "dhaga: enough"]


def test_a_second_cancel_strikes_the_finally_and_still_waits_for_the_end() -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                trace.append("put away")

    def works() -> None:
        for _ in range(2):
            try:
                dhaga.await_(coroutine())
            except dhaga.Cancelled as error:
                trace.append(f"dhaga: {error.reason}")

    with virtual_clock() as clock:
        d = dhaga.spawn(works)
        for number in (1, 2):
            dhaga.sleep(1)
            d.cancel(number)
        d.join()
        assert clock() == 3
    assert trace == ["put away", "dhaga: 1", "dhaga: 2"]


def test_a_coroutine_that_swallows_its_cancel_has_its_value_returned_and_the_cancel_comes_at_the_next_park() -> None:
    async def coroutine() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        return "value"

    def works() -> tuple[str, str]:
        value = dhaga.await_(coroutine())
        try:
            dhaga.sleep(0)
        except dhaga.Cancelled as error:
            return value, error.reason  # type: ignore[return-value]
        return value, "lost"

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel("later")
        assert d.result() == ("value", "later")


def test_an_error_in_the_finally_of_a_cancelled_coroutine_is_raised_and_the_cancel_comes_at_the_next_park() -> None:
    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise OSError("while putting away")

    def works() -> str:
        with pytest.raises(OSError, match="while putting away"):
            dhaga.await_(coroutine())
        with pytest.raises(dhaga.Cancelled):
            dhaga.sleep(1)
        return "both"

    with virtual_clock():
        d = dhaga.spawn(works)
        dhaga.sleep(1)
        d.cancel()
        assert d.result() == "both"


def test_a_timeout_cancels_the_coroutine_and_waits_for_its_end() -> None:
    trace: list[str] = []

    async def coroutine(swallows: bool) -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            trace.append("put away")
            if not swallows:
                raise
        return "value"

    with virtual_clock() as clock:
        with pytest.raises(TimeoutError):
            dhaga.await_(coroutine(False), timeout=1)
        assert clock() == 2
        with pytest.raises(TimeoutError, match="not done within"), dhaga.Timeout(1):
            dhaga.await_(coroutine(False))
        assert clock() == 4
        assert dhaga.await_(coroutine(True), timeout=1) == "value"
        dhaga.sleep(0)
        with dhaga.Timeout(1) as block:
            assert dhaga.await_(coroutine(True)) == "value"
        assert block.expired
        with pytest.raises(TimeoutError):
            dhaga.await_(asyncio.sleep(1), timeout=0)
        assert dhaga.await_(returns(1, 0), timeout=0) == 1
    assert trace == ["put away"] * 4


def test_a_cancelled_await_of_a_future_cancels_that_and_a_shield_keeps_it() -> None:
    with virtual_clock():
        loop = dhaga.current().scheduler.loop
        bare, shielded = loop.create_task(asyncio.sleep(5)), loop.create_task(returns("kept", 5))
        for future in (bare, asyncio.shield(shielded)):
            with pytest.raises(TimeoutError):
                dhaga.await_(future, timeout=0)
        assert bare.cancelled()
        assert dhaga.await_(shielded) == "kept"


def test_a_task_that_others_cancel_cancels_its_dhaga() -> None:
    tasks: list[Any] = []

    async def coroutine() -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(1000)

    with virtual_clock():
        d = dhaga.spawn(dhaga.await_, coroutine())
        dhaga.sleep(1)
        tasks[0].cancel("by others")
        with pytest.raises(dhaga.Cancelled, match="by others"):
            d.result()


def test_a_future_that_others_cancel_raises_asyncios_error() -> None:
    """It is no cancel of the dhaga: what it waits for has been given up."""
    with virtual_clock():
        loop = dhaga.current().scheduler.loop
        future = loop.create_future()
        loop.call_later(1, future.cancel)
        with pytest.raises(asyncio.CancelledError):
            dhaga.await_(future)
        with pytest.raises(asyncio.CancelledError):
            dhaga.await_(returns_the_result_of(future))


async def returns_the_result_of(future: Any) -> Any:
    return await future


@pytest.mark.parametrize("place", [in_a_guest_of_asyncio, in_a_guest_of_uvloop])
def test_a_host_that_ends_cancels_dhagas_that_await_and_nothing_is_logged(place: Any) -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0)
            trace.append("coroutine")

    def left(fn: Callable[[], Any]) -> None:
        try:
            fn()
        finally:
            dhaga.sleep(0)
            trace.append("dhaga")

    def in_a_block() -> None:
        with enter(asyncio.timeout(1000)):
            dhaga.sleep(1000)

    def fn() -> None:
        dhaga.spawn(left, lambda: dhaga.await_(coroutine()))
        dhaga.spawn(left, in_a_block)
        dhaga.sleep(0.01)

    place(fn)
    assert sorted(trace) == ["coroutine", "dhaga", "dhaga"]


def test_a_cancel_before_the_first_step_leaves_nothing_behind(recwarn: Any) -> None:
    trace: list[str] = []

    async def coroutine() -> None:
        trace.append("begun")

    with virtual_clock():
        d = dhaga.spawn(dhaga.await_, coroutine())
        dhaga.spawn(d.cancel)  # runs between the await and the first step, where that is made in its turn
        d.join()
        ended = dhaga.spawn(lambda: [dhaga.current().cancel(), dhaga.await_(coroutine())])  # type: ignore[func-returns-value]
        with pytest.raises(dhaga.Cancelled):
            ended.result()
    del d, ended
    gc.collect()
    assert len(trace) <= 1 and not recwarn.list


def test_a_cancel_at_any_park_ends_the_coroutine_first(factory: Any) -> None:
    def scenario() -> Any:
        factory()
        trace: list[str] = []

        async def coroutine() -> None:
            trace.append("begins")
            try:
                await asyncio.sleep(1)
                await asyncio.sleep(1)
            finally:
                await asyncio.sleep(1)
                trace.append("ends")

        def works() -> None:
            try:
                dhaga.await_(coroutine())
                dhaga.await_(coroutine())
            finally:
                trace.append("dhaga")

        def check() -> None:
            assert trace in ([*["begins", "ends"] * n, "dhaga"] for n in range(3))

        return victim(works), check

    assert cancel_at_every_park(scenario) >= 2


def test_deadlock_is_seen_through_an_await() -> None:
    outcome = run("""
        import asyncio
        import dhaga

        async def never():
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                print("put away")

        try:
            dhaga.await_(never())
        except dhaga.Deadlock as error:
            print(str(error).splitlines()[1][:45])
    """)
    assert (outcome.lines, outcome.err) == (["put away", "  main code: waits for await on <Task pending"], "")


def test_ctrl_c_in_an_awaiting_main_code_ends_the_coroutine_first() -> None:
    program = Program("""
        import asyncio
        import dhaga

        async def coroutine():
            print("waits")
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.01)
                print("put away")

        try:
            dhaga.await_(coroutine())
        except KeyboardInterrupt:
            print("interrupted")
    """)
    outcome = program.interrupt_at("waits").outcome()
    assert (outcome.status, outcome.lines, outcome.err) == (0, ["put away", "interrupted"], "")


def test_system_exit_in_a_coroutine_ends_the_program() -> None:
    for steps in (0, 1):
        outcome = run(f"""
            import asyncio, sys
            import dhaga

            async def coroutine():
                for _ in range({steps}):
                    await asyncio.sleep(0)
                sys.exit(3)

            try:
                dhaga.await_(coroutine())
            finally:
                print("finally")
        """)
        assert (outcome.status, outcome.lines, outcome.err) == (3, ["finally"], "")


# ---- blocks and iterations in one Task


class Manager:
    """Writes down what happens to it, and checks that it happens in one Task."""

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

    original, asyncio.sleep = asyncio.sleep, lambda seconds: original(0)  # type: ignore[assignment]
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
            dhaga.current().cancel("late")  # type: ignore[union-attr]

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
        with dhaga.shield(), pytest.raises(TimeoutError), enter(asyncio.timeout(1)):
            dhaga.sleep(1000)
        with pytest.raises(TimeoutError), enter(asyncio.timeout(1)):
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
        with enter(asyncio.timeout(1000)) as bound:
            dhaga.sleep(0)
            dhaga.await_(asyncio.sleep(0))
        seen.append(bound.expired())
        for wait in (lambda: dhaga.sleep(1000), lambda: dhaga.await_(asyncio.sleep(1000))):
            with pytest.raises(TimeoutError), enter(asyncio.timeout(0.01)):
                wait()
        with enter(asyncio.timeout(1000)):
            with pytest.raises(TimeoutError), enter(asyncio.timeout(0.01)):
                dhaga.sleep(1000)
            dhaga.sleep(0)
        dhaga.sleep(0)
        return seen

    assert call(fn) == [False]


def test_a_cancel_wins_over_an_asyncio_timeout_that_has_expired_too() -> None:
    def works() -> None:
        with enter(asyncio.timeout(1)):
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


# ---- coroutine -> dhaga


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
        task = asyncio.ensure_future(run_in_dhaga(swallows))  # type: ignore[arg-type]
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
        dhagas = [dhaga.spawn(lambda n=n: dhaga.sleep(0) or n) for n in range(4)]  # type: ignore[misc]
        first = asyncio.ensure_future(dhagas[0])
        return [
            await first,
            await asyncio.wait_for(dhagas[1], 10),  # type: ignore[arg-type]
            *await asyncio.gather(*dhagas[2:]),  # type: ignore[call-overload]
        ]

    assert host(main()) == [0, 1, 2, 3]


def test_doors_may_be_nested(host: Runner) -> None:
    async def down(depth: int) -> int:
        await asyncio.sleep(0)
        return await run_in_dhaga(up, depth - 1) if depth else 0

    def up(depth: int) -> int:
        return 1 + dhaga.await_(down(depth))  # type: ignore[no-any-return]

    assert host(down(20)) == 20


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
        return seen  # type: ignore[return-value]

    def fn() -> Any:
        factory()
        return dhaga.await_(parks())

    assert call(fn) == [0, 0, 0, 1, 1, 1]


def test_await_in_a_callback_is_refused_and_the_coroutine_closed(recwarn: Any) -> None:
    seen: list[Any] = []

    def callback() -> None:
        coroutine = returns(1)
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
    d = dhaga.spawn(lambda: dhaga.await_(dhaga.current()))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="own end"):
        d.result()


def test_enter_and_aiter_refuse_what_is_not_theirs_and_close_it(recwarn: Any) -> None:
    with pytest.raises(TypeError, match="enter it with a plain with"):
        enter(contextlib.suppress(ValueError))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no __aenter__"):
        enter(returns(1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="plain for"):
        aiter_([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no __aiter__"):
        aiter_(returns(1))  # type: ignore[arg-type]
    block = enter(Manager([]))
    with virtual_clock(), block:
        with pytest.raises(RuntimeError, match="entered already"):
            block.__enter__()
    gc.collect()
    assert not recwarn.list


def test_what_was_begun_in_one_scheduler_does_not_go_on_in_another() -> None:
    iterator = aiter_(counts([]))
    assert next(iterator) == 0

    def goes_on() -> None:
        with pytest.raises(RuntimeError, match="cannot go on with it"):
            next(iterator)

    with dhaga.Scheduler("other") as other:
        other.spawn(goes_on).result()
    dhaga.sleep(0.001)


def test_spawn_refuses_coroutine_functions_and_coroutines(recwarn: Any) -> None:
    with pytest.raises(TypeError, match="call await_ or run_in_dhaga"):
        dhaga.spawn(returns, 1)
    with pytest.raises(TypeError, match=r"in a dhaga call await_\("):
        dhaga.spawn(returns(1))  # type: ignore[arg-type]
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
                dhaga.await_(make())  # type: ignore[no-untyped-call]

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
            with enter(asyncio.timeout(10)):
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
