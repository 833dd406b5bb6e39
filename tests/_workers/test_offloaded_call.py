"""One call for an OS thread: its result, its error, its cancel, and what cannot be called."""

from __future__ import annotations

import contextvars
import functools
import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dhaga
from dhaga._workers.offload import MAX_THREADS, OffloadPool
from dhaga.testing import settle


def test_it_returns_the_result_with_all_arguments(main_dhaga: None) -> None:
    assert dhaga.offload(lambda *args, **kwargs: (args, kwargs), 1, 2, fn=3, a=4) == ((1, 2), {"fn": 3, "a": 4})


def test_it_raises_the_error_with_its_traceback(main_dhaga: None) -> None:
    def fails() -> None:
        raise LookupError("of the call")

    with pytest.raises(LookupError, match="of the call") as info:
        dhaga.offload(fails)
    assert info.traceback[-1].name == "fails"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), dhaga.Cancelled()])
def test_it_raises_errors_that_are_no_exceptions_too_and_the_thread_lives_on(
    main_dhaga: None, error: BaseException
) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as info:
        dhaga.offload(fails)
    assert info.value is error
    assert dhaga.offload(int, "1") == 1


def test_context_variables_go_along_and_changes_stay_there() -> None:
    variable = contextvars.ContextVar("variable", default="none")

    def call() -> str:
        former = variable.get()
        variable.set("by the call")
        return former

    def calls(value: str) -> tuple[str, str]:
        variable.set(value)
        return dhaga.offload(call), variable.get()

    dhagas = [dhaga.spawn(calls, value) for value in "ab"]
    assert [d.result(30) for d in dhagas] == [("a", "a"), ("b", "b")]
    assert dhaga.offload(call) == "none"


def test_a_cancel_lets_the_caller_go_at_once_and_the_call_runs_to_its_end() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        gate.wait(30)
        ended.set()

    d = dhaga.spawn(dhaga.offload, call)
    while not begun.is_set():
        dhaga.sleep(0.001)
    d.cancel()
    with pytest.raises(dhaga.Cancelled):
        d.result(30)
    assert not ended.is_set()
    assert dhaga.current().scheduler.outside_calls == 0
    gate.set()
    assert ended.wait(30)


def test_a_timeout_lets_the_caller_go_at_once() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError), dhaga.Timeout(0.01):
        dhaga.offload(gate.wait, 30)
    assert dhaga.current().scheduler.outside_calls == 0
    gate.set()


def test_an_error_of_a_call_that_nobody_waits_for_is_dropped() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), threading.Event()

    def fails() -> None:
        begun.set()
        gate.wait(30)
        ended.set()
        raise LookupError

    d = dhaga.spawn(dhaga.offload, fails)
    while not begun.is_set():
        dhaga.sleep(0.001)
    d.cancel()
    d.join(30)
    gate.set()
    assert ended.wait(30)
    assert dhaga.offload(int) == 0


def test_a_cancelled_call_that_has_not_begun_is_not_made() -> None:
    gate = threading.Event()
    made: list[int] = []
    blockers = [dhaga.spawn(dhaga.offload, gate.wait, 60) for _ in range(MAX_THREADS)]
    waiting = [dhaga.spawn(dhaga.offload, made.append, n) for n in range(3)]
    settle()
    waiting[1].cancel()
    waiting[1].join(30)
    assert made == []
    gate.set()
    d: dhaga.Dhaga[Any]
    for d in (*blockers, waiting[0], waiting[2]):
        d.result(30)
    assert sorted(made) == [0, 2]


async def coroutine_function() -> None:
    raise AssertionError("never called")


def generator_function() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("door", ["offload", "offloaded", "pool.offload", "pool.offloaded", "pool.finish"])
@pytest.mark.parametrize(
    ("fn", "advice"),
    [
        (3, r"not 3: offload\(fn, \*args\)"),
        (None, "a function to call, not None"),
        (coroutine_function, "is a coroutine function.*await_.*run_in_dhaga"),
        (functools.partial(coroutine_function), "is a coroutine function.*await_.*run_in_dhaga"),
        (generator_function, "is a generator function.*offload a function that iterates"),
    ],
)
def test_what_no_thread_can_call_is_refused_at_once(wal: OffloadPool, door: str, fn: Any, advice: str) -> None:
    *of_pool, name = door.split(".")
    with pytest.raises(TypeError, match=advice):
        getattr(wal if of_pool else dhaga, name)(fn)
    assert not wal.workers.threads


@pytest.mark.parametrize("door", ["offload", "offloaded", "pool.offload", "pool.offloaded", "pool.finish"])
def test_a_coroutine_is_refused_with_the_way_out_and_closed(wal: OffloadPool, door: str) -> None:
    *of_pool, name = door.split(".")
    coroutine = coroutine_function()
    with pytest.raises(TypeError, match=r"a function to call, not <coroutine .*: in a dhaga call await_"):
        getattr(wal if of_pool else dhaga, name)(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    assert not wal.workers.threads
