"""Results and arguments of a call are freed as soon as its caller drops them: neither Dhaga nor a cycle keeps them.

A file that is dropped without a close would be flushed late, and at the exit perhaps never.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator

import pytest

import dhaga
from dhaga import futures
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga.pool import Pool
from dhaga.queue import Queue, SimpleQueue
from dhaga.testing import virtual_clock
from dhaga.threading import Thread, Timer


class Result:
    """An object that shows by a weak reference whether it is still there."""


def from_queue(kind: Callable[[], Queue[Result]]) -> Result:
    queue = kind()
    dhaga.spawn(lambda: queue.put(Result()))
    return queue.get()


def of_a_joined_dhaga() -> Result:
    joined = dhaga.spawn(Result)
    joined.join()
    return joined.result()


def of_a_scope() -> Result:
    with dhaga.Scope() as scope:
        child = scope.spawn(Result)
    return child.result()


def of_the_first_completed() -> Result:
    return next(iter(dhaga.as_completed([dhaga.spawn(Result)]))).result()


def of_a_coroutine() -> Result:
    async def make() -> Result:
        return Result()

    return dhaga.await_(make())


def of_a_future() -> Result:
    future: futures.Future[Result] = futures.Future()
    dhaga.spawn(lambda: future.set_result(Result()))
    return future.result()


def of_an_executor() -> Result:
    with futures.Executor() as executor:
        return executor.submit(Result).result()


def of_a_pool() -> Result:
    with Pool(1) as pool:
        return pool.submit(Result).result()


def of_a_wake() -> Result:
    me = dhaga.current()
    dhaga.spawn(lambda: me.wake(Result()))
    return dhaga.park("x")


def passed_to(kind: Callable[[Result], object]) -> Result:
    """Return an object that a thread or dhaga has had as an argument."""
    result = Result()
    kind(result)
    return result


def thread_with(result: Result) -> None:
    thread = Thread(target=id, args=(result,))
    thread.start()
    thread.join()


def timer_with(result: Result) -> None:
    timer = Timer(0.01, id, (result,))
    timer.start()
    timer.join()


CALLS: dict[str, Callable[[], Result]] = {
    "Queue": lambda: from_queue(Queue),
    "SimpleQueue": lambda: from_queue(SimpleQueue),
    "result": lambda: dhaga.spawn(Result).result(),
    "join": of_a_joined_dhaga,
    "Scope": of_a_scope,
    "race": lambda: dhaga.race(Result, lambda: dhaga.sleep(9)),
    "as_completed": of_the_first_completed,
    "offload": lambda: dhaga.offload(Result),
    # Without eager Tasks, the loop holds the Task until its next turn.
    **({"await_": of_a_coroutine} if sys.version_info >= (3, 12) else {}),
    "Future": of_a_future,
    "Executor": of_an_executor,
    "Pool": of_a_pool,
    "park": of_a_wake,
    "argument of a dhaga": lambda: passed_to(lambda result: dhaga.spawn(id, result).join()),
    "argument of spawn_later": lambda: passed_to(lambda result: dhaga.spawn_later(0.01, id, result).join()),
    "argument of offload": lambda: passed_to(lambda result: dhaga.offload(id, result)),
    "argument of a Thread": lambda: passed_to(thread_with),
    "argument of a Timer": lambda: passed_to(timer_with),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.skipif(FREE_THREADED, reason="an object of another thread is freed later there")
@pytest.mark.parametrize("place", ["main code", "dhaga"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_result_is_freed_when_its_caller_drops_it(call: Callable[[], Result], place: str) -> None:
    def is_freed() -> bool:
        result = weakref.ref(call())
        return result() is None

    with virtual_clock():
        assert is_freed() if place == "main code" else dhaga.spawn(is_freed).result()
