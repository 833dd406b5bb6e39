"""futures: what comes of a call, waiting for several, and the executor over the caller's own scheduler."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import gc
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import futures
from dhaga._workers import dhaga_pool
from dhaga.futures import CancelledError, Executor, Future, as_completed, wait
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Event, local
from tests.kit.parking import parked, victim
from tests.kit.scripts import prints


@pytest.fixture
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


@pytest.fixture
def executor(clock: Any) -> Iterator[Executor]:
    with Executor() as executor:
        yield executor


def in_thread(fn: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=fn, daemon=True)
    thread.start()
    return thread


# ---- Future


def test_a_future_is_a_standard_one_with_its_states() -> None:
    future: Future[int] = Future()
    assert isinstance(future, concurrent.futures.Future)
    assert (future.done(), future.running(), future.cancelled()) == (False, False, False)
    assert future.set_running_or_notify_cancel() and future.running() and not future.done()
    future.set_result(7)
    assert future.done() and not future.running() and (future.result(), future.exception()) == (7, None)


def test_a_future_that_has_ended_keeps_its_outcome() -> None:
    future: Future[int] = Future()
    future.set_result(7)
    for end in (
        lambda: future.set_result(8),
        lambda: future.set_exception(OSError()),
        future.set_running_or_notify_cancel,
    ):
        with pytest.raises(futures.InvalidStateError, match="before"):
            end()
    assert future.result() == 7 and not future.cancel()


def test_result_and_exception_wait_and_raise_what_the_call_raised(executor: Executor) -> None:
    def fails() -> None:
        dhaga.sleep(1)
        raise LookupError("of the call")

    future = executor.submit(fails)
    error = future.exception()
    assert isinstance(error, LookupError)
    with pytest.raises(LookupError, match="of the call") as info:
        future.result()
    assert info.value is error and info.traceback[-1].name == "fails"


def test_a_dhaga_parks_in_result_and_others_run(executor: Executor) -> None:
    gate = Event()
    future = executor.submit(gate.wait)
    waiters = [parked(future.result) for _ in range(3)]
    assert [w.reason for w in waiters] == ["future.result"] * 3
    assert repr(future) == "<Future RUNNING in virtual-worker-1, 3 parked>"
    gate.set()
    assert [w.result() for w in waiters] == [True] * 3
    assert repr(future) == "<Future FINISHED returned bool>"


def test_a_timeout_ends_the_wait_and_leaves_the_call_alone(clock: Any, executor: Executor) -> None:
    future = executor.submit(dhaga.sleep, 5)
    for seconds in (0, -1, 2):
        with pytest.raises(TimeoutError):
            future.result(seconds)
    assert clock.now == 2 and future.running()
    assert future.exception(4) is None and clock.now == 5


def test_a_plain_thread_blocks_in_result() -> None:
    future: Future[int] = Future()
    seen: list[int] = []
    thread = in_thread(lambda: seen.append(future.result(30)))
    while not future._joiners:
        time.sleep(0.001)
    future.set_result(7)
    thread.join()
    assert seen == [7]


def test_waiting_on_the_loop_names_the_way_out() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        with pytest.raises(dhaga.ParkError, match="await"):
            future.result()
        future.set_result(7)
        assert future.result() == 7  # nothing to wait for

    asyncio.run(main())


def test_a_call_that_waits_for_itself_is_told_so(executor: Executor) -> None:
    mine: list[Future[Any]] = []
    mine.append(executor.submit(lambda: mine[0].result()))
    with pytest.raises(RuntimeError, match="waited for by the call that it stands for"):
        mine[0].result()


def test_a_coroutine_awaits_a_future_of_another_thread() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        thread = in_thread(lambda: future.set_result(7))
        assert await future == 7 and await asyncio.wrap_future(future) == 7
        thread.join()
        failed: Future[int] = Future()
        failed.set_exception(LookupError("of the call"))
        with pytest.raises(LookupError):
            await failed

    asyncio.run(main())


def test_a_coroutine_that_is_cancelled_cancels_the_call() -> None:
    ends: list[str] = []

    def call() -> None:
        try:
            dhaga.sleep(60)
        except dhaga.Cancelled as error:
            ends.append(str(error))
            raise

    async def main() -> None:
        with Executor() as executor:
            future = executor.submit(call)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(future, 0.01)
            while not future.done():
                await asyncio.sleep(0.001)
            assert future.cancelled()

    asyncio.run(main())
    assert ends == ["its future was cancelled"]


def test_callbacks_are_called_once_each_at_the_end_and_their_errors_are_logged(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[object] = []
    future = executor.submit(int, "7")
    future.add_done_callback(called.append)
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(called.append)
    assert future.result() == 7
    future.add_done_callback(called.append)
    assert called == [future] * 3
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()


# ---- cancel


def test_a_call_that_has_not_begun_is_cancelled_and_not_made(executor: Executor) -> None:
    made: list[int] = []
    future = executor.submit(made.append, 1)
    waiter = dhaga.spawn(future.exception)
    assert future.cancel() and future.cancel() and future.cancelled() and future.done()
    assert repr(future) == "<Future CANCELLED>"
    with pytest.raises(CancelledError):
        waiter.result()
    settle()
    assert made == []
    with pytest.raises(CancelledError):
        future.exception()


def test_a_cancel_of_a_running_call_reaches_it_at_its_park_and_says_false(executor: Executor) -> None:
    trace: list[object] = []

    def call() -> None:
        try:
            dhaga.sleep(60)
        finally:
            dhaga.sleep(1)  # it may clean up, and park for that
            trace.append("cleaned up")

    future = executor.submit(call)
    settle()
    trace.append(future.cancel())
    trace.append(future.cancelled())
    with pytest.raises(CancelledError):
        future.result()
    assert trace == [False, False, "cleaned up"] and future.cancelled() and future.cancel()


def test_a_call_may_return_in_spite_of_a_cancel(executor: Executor) -> None:
    def call() -> str:
        try:
            dhaga.sleep(60)
        except dhaga.Cancelled:
            return "all the same"
        return "never"

    future = executor.submit(call)
    settle()
    assert not future.cancel() and future.result() == "all the same" and not future.cancelled()


def test_a_cancel_never_hits_the_next_call_of_the_same_worker(clock: Any) -> None:
    with Executor(dhagas=1) as executor:
        names: list[str] = []

        def first() -> None:
            names.append(dhaga.current().name)
            mine.cancel()  # it is running, and never parks again

        def second() -> str:
            names.append(dhaga.current().name)
            dhaga.sleep(1)
            return "whole"

        mine = executor.submit(first)
        following = executor.submit(second)
        assert following.result() == "whole" and mine.result() is None
        assert names == ["virtual-worker-1"] * 2


def test_a_late_cancel_from_another_thread_never_hits_the_next_call(clock: Any) -> None:
    with Executor(dhagas=1) as executor:
        first = executor.submit(int)
        worker: list[Any] = []
        second = executor.submit(lambda: (worker.append(dhaga.current()), dhaga.sleep(1)))
        assert first.result() == 0
        settle()
        worker[0].cancel_call(first)  # what comes of first.cancel() if the call ends meanwhile
        assert second.exception() is None


def test_a_worker_lives_on_after_the_cancel_of_its_call_but_not_after_its_own(executor: Executor) -> None:
    def call() -> None:
        workers_seen.append(dhaga.current())
        dhaga.sleep(60)

    workers_seen: list[Any] = []
    for cancels_the_call in (True, False, False):
        future = executor.submit(call)
        settle()
        if cancels_the_call:
            future.cancel()
        else:
            workers_seen[-1].cancel()
        with pytest.raises(CancelledError):
            future.result()
    assert workers_seen[0] is workers_seen[1] and workers_seen[1] is not workers_seen[2]
    idle: Any = executor.submit(dhaga.current).result()
    idle.cancel()
    settle()
    assert not idle.is_alive() and executor.submit(int, "7").result() == 7


def test_withdraw_is_the_cancel_of_the_standard(executor: Executor) -> None:
    running = executor.submit(dhaga.sleep, 1)
    settle()
    pending: Future[int] = Future()
    assert (running._cancel_unbegun(), pending._cancel_unbegun()) == (False, True)
    assert running.result() is None and pending.cancelled()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), dhaga.ParkError("of the call")])
def test_errors_of_any_kind_go_to_the_future_and_the_worker_lives_on(executor: Executor, error: BaseException) -> None:
    def fails() -> Any:
        raise error

    worker = executor.submit(dhaga.current).result()
    with pytest.raises(type(error)) as info:
        executor.submit(fails).result()
    assert info.value is error and executor.submit(dhaga.current).result() is worker


def test_a_cancelled_waiter_leaves_call_and_future_whole() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        executor = Executor()
        future = executor.submit(lambda: (dhaga.sleep(1), 7)[1])
        waiting = victim(future.result)
        other = dhaga.spawn(lambda: (future.result(), executor.shutdown()))

        def check() -> None:
            assert other.has_ended and other._error is None and future.result() == 7 and not future._joiners

        return waiting, check

    assert cancel_at_every_park(scenario) == 1


def test_a_finished_call_leaves_nothing_behind(executor: Executor) -> None:
    class Large:
        pass

    def returns(argument: object) -> Large:
        return Large()

    def raises(argument: object) -> None:
        raise LookupError

    argument = Large()
    gc.collect()
    gc.disable()
    try:
        future, failed = executor.submit(returns, argument), executor.submit(raises, argument)
        result = weakref.ref(future.result())
        error = weakref.ref(failed)
        with pytest.raises(LookupError):
            failed.result()
        settle()
        gone = weakref.ref(argument)
        del future, failed, argument
        assert (result(), error(), gone()) == (None, None, None)  # without the cyclic collector
    finally:
        gc.enable()


# ---- wait and as_completed


def naps(executor: Executor, *seconds: float) -> list[Any]:
    return [executor.submit(lambda n: (dhaga.sleep(n), n)[1], n) for n in seconds]


def test_as_completed_gives_them_as_they_end(clock: Any, executor: Executor) -> None:
    calls = naps(executor, 3, 1, 2)
    assert [f.result() for f in as_completed([*calls, calls[0]])] == [1, 2, 3] and clock.now == 3
    assert {f.result() for f in as_completed(calls)} == {1, 2, 3} and clock.now == 3


def test_as_completed_counts_its_timeout_from_the_call(clock: Any, executor: Executor) -> None:
    calls = naps(executor, 1, 2, 9)
    ended = as_completed(calls, timeout=3)
    assert [next(ended).result(), next(ended).result()] == [1, 2]
    with pytest.raises(TimeoutError, match="1 of the waitables have not ended"):
        next(ended)
    assert clock.now == 3 and not any(f._waiters for f in calls)


@pytest.mark.parametrize(
    ("return_when", "done", "at"),
    [("ALL_COMPLETED", [1, 2, 3], 3), ("FIRST_COMPLETED", [1], 1), ("FIRST_EXCEPTION", [1, 2], 2)],
)
def test_wait_returns_when_it_was_told(
    clock: Any, executor: Executor, return_when: str, done: list[int], at: int
) -> None:
    def call(n: int) -> None:
        dhaga.sleep(n)
        if n == 2:
            raise LookupError

    calls = {executor.submit(call, n): n for n in (3, 1, 2)}
    result = wait(calls, return_when=return_when)
    assert sorted(calls[f] for f in result.done) == done and clock.now == at
    assert result.not_done == set(calls) - result.done and not any(f._waiters for f in calls)


def test_wait_returns_after_its_timeout(clock: Any, executor: Executor) -> None:
    calls = naps(executor, 1, 9)
    assert wait(calls, timeout=2) == ({calls[0]}, {calls[1]}) and clock.now == 2
    assert wait(calls, timeout=0) == ({calls[0]}, {calls[1]}) and clock.now == 2
    assert wait([]) == (set(), set()) and list(as_completed([])) == []


def test_they_wait_for_standard_futures_and_cancelled_ones_too(clock: Any) -> None:
    standard: concurrent.futures.Future[int] = concurrent.futures.Future()
    mine: Future[int] = Future()
    waiting = parked(wait, [standard, mine])
    ending = parked(lambda: list(as_completed([standard, mine])))
    mine.cancel()
    standard.set_result(1)
    assert waiting.result() == ({standard, mine}, set()) and ending.result() == [mine, standard]
    assert not standard._waiters


def test_the_standard_ones_refuse_to_wait_in_the_thread_that_is_to_make_the_calls(clock: Any) -> None:
    with Executor() as executor:
        calls = [executor.submit(dhaga.sleep, 1) for _ in range(2)]
        for waits in (concurrent.futures.wait, lambda fs: list(concurrent.futures.as_completed(fs))):
            with pytest.raises(RuntimeError, match=r"use those of dhaga\.futures"):
                waits(calls)
        in_thread(lambda: concurrent.futures.wait(calls, timeout=0)).join()
        assert wait(calls).done == set(calls) == concurrent.futures.wait(calls).done


def test_in_a_patched_program_the_standard_ones_park() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        from concurrent.futures import as_completed, wait
        import dhaga
        from dhaga.futures import Executor
        with Executor() as executor:
            calls = [executor.submit(lambda n=n: (dhaga.sleep(0.001), n)[1]) for n in range(3)]
            print(len(wait(calls).done))
            print(sorted(each.result() for each in as_completed([executor.submit(int, n) for n in range(3)])))
    """) == ["3", "[0, 1, 2]"]


def test_the_standard_ones_wait_for_ours() -> None:
    ours: list[Future[int]] = [Future() for _ in range(3)]

    def ends() -> None:
        ours[0].cancel()
        ours[1].set_exception(LookupError())
        ours[2].set_result(7)

    thread = in_thread(ends)
    assert set(concurrent.futures.as_completed(ours, timeout=5)) == set(ours)
    assert concurrent.futures.wait(ours, timeout=5).done == set(ours)
    thread.join()


def test_a_cancel_during_wait_takes_the_watch_off() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        calls: list[Future[int]] = [Future(), Future()]
        waiting = victim(lambda: (wait(calls), list(as_completed(calls))))
        dhaga.spawn(lambda: (dhaga.sleep(1), calls[0].set_result(1), dhaga.sleep(1), calls[1].set_result(2)))
        return waiting, lambda: [f for f in calls if f._waiters] == [] or pytest.fail("a watch is left")

    assert cancel_at_every_park(scenario) == 2


def test_bad_arguments_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="FIRST_COMPLETED"):
        wait([], return_when="soon")
    for call in (wait, as_completed):
        with pytest.raises(TypeError, match="futures of concurrent"):
            call([dhaga])  # type: ignore[type-var]
    for bad in (0, -1):
        with pytest.raises(ValueError, match="dhagas must be 1 or more"):
            Executor(dhagas=bad)
    with pytest.raises(TypeError, match="dhagas is a number"):
        Executor(dhagas="many")


# ---- Executor


def test_an_executor_makes_calls_on_the_callers_scheduler_with_all_arguments(executor: Executor) -> None:
    assert isinstance(executor, concurrent.futures.Executor)
    here = dhaga.current().scheduler
    assert executor.submit(lambda *a, **k: (a, k, dhaga.current().scheduler), 1, 2, fn=3).result() == (
        (1, 2),
        {"fn": 3},
        here,
    )


def test_an_executor_bounds_the_calls_at_once(clock: Any) -> None:
    with Executor(dhagas=3) as executor:
        assert list(executor.map(dhaga.sleep, [1] * 7)) == [None] * 7 and clock.now == 3
        assert "0 calls" in repr(executor)


def test_workers_are_reused_and_end_when_idle_for_long(clock: Any) -> None:
    with Executor() as executor:
        first = {executor.submit(dhaga.current).result() for _ in range(5)}
        assert len(first) == 1
        clock.now = 0
        dhaga.sleep(dhaga_pool.IDLE_SECONDS + 1)
        assert not any(worker.is_alive() for worker in first)
        assert executor.submit(int, "7").result() == 7


def test_each_call_runs_in_a_copy_of_its_submitters_context(executor: Executor) -> None:
    variable = contextvars.ContextVar("variable", default="none")

    def call() -> str:
        former = variable.get()
        variable.set("by the call")
        dhaga.sleep(1)
        return f"{former}, then {variable.get()}"

    def submits(value: str) -> str:
        variable.set(value)
        return executor.submit(call).result() + f", {variable.get()} at home"

    dhagas = [dhaga.spawn(submits, value) for value in "ab"]
    assert [d.result() for d in dhagas] == [f"{v}, then by the call, {v} at home" for v in "ab"]
    assert executor.submit(variable.get).result() == "none"


def test_dhaga_locals_of_a_worker_stay_as_those_of_a_pool_thread_do(executor: Executor) -> None:
    mine = local()
    executor.submit(setattr, mine, "value", 7).result()
    assert executor.submit(lambda: mine.value).result() == 7 and not hasattr(mine, "value")


def test_shutdown_waits_and_refuses_what_comes_after(clock: Any) -> None:
    executor = Executor()
    calls = naps(executor, 1, 2)
    executor.shutdown()
    assert [f.result(0) for f in calls] == [1, 2] and clock.now == 2
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(int)
    executor.shutdown()


def test_shutdown_can_withdraw_what_has_not_begun(clock: Any) -> None:
    executor = Executor(dhagas=1)
    calls = naps(executor, 1, 2)
    settle()
    executor.shutdown(cancel_futures=True)
    assert calls[0].result() == 1 and calls[1].cancelled() and clock.now == 1


def test_shutdown_without_wait_returns_at_once_and_the_calls_are_made(clock: Any) -> None:
    executor = Executor()
    calls = naps(executor, 1, 2)
    executor.shutdown(wait=False)
    assert clock.now == 0 and not calls[0].done()
    assert [f.result() for f in calls] == [1, 2]
    settle()


def test_a_coroutine_can_shut_down_an_idle_executor_but_not_wait_there() -> None:
    async def main() -> None:
        executor = Executor()
        future = executor.submit(dhaga.sleep, 0.01)
        with pytest.raises(dhaga.ParkError, match="await"):
            executor.shutdown()
        await future
        executor.shutdown()

    asyncio.run(main())


def test_what_is_due_when_a_loop_ends_is_cancelled() -> None:
    executor = Executor(dhagas=1)
    calls: list[Any] = []

    async def main() -> None:
        calls.extend(naps(executor, 60, 1))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert [f.cancelled() for f in calls] == [True, True]


def test_an_executor_serves_one_loop_after_the_other() -> None:
    executor = Executor()

    async def main() -> str:
        return await asyncio.get_running_loop().run_in_executor(executor, lambda: dhaga.current().scheduler.name)

    assert asyncio.run(main()).startswith("guest") and asyncio.run(main()).startswith("guest")
    assert len(executor._worker_pools) == 1


async def a_coroutine_function() -> None:
    pass


def test_what_cannot_be_called_is_refused_at_once(executor: Executor) -> None:
    with pytest.raises(TypeError, match=r"submit\(fn, \*args\)"):
        executor.submit(3)
    for bad in (a_coroutine_function, functools.partial(a_coroutine_function)):
        with pytest.raises(TypeError, match=r"call await_.*run_in_dhaga"):
            executor.submit(bad)


def test_the_traceback_of_an_error_does_not_grow_with_each_call_of_result() -> None:
    def entries() -> int:
        with pytest.raises(LookupError) as info:
            future.result()
        return len(list(traceback.walk_tb(info.value.__traceback__)))

    future: Future[None] = Future()
    future.set_exception(LookupError())
    assert entries() == entries() == entries()
