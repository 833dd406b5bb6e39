"""Awaits and Deadlock: a Future that code unknown to Python may end is none, a wait for Dhaga's own is one."""

from __future__ import annotations

import asyncio
import sys

import pytest

import dhaga
from dhaga import aio, futures
from dhaga.threading import Event
from tests.kit.deadlocks import (
    lines_of,
    quick_look,  # noqa: F401  (used by all of them)
)
from tests.kit.scripts import prints

NATIVE = """
    import asyncio
    import ctypes

    import dhaga
    from dhaga import aio, threading
    from dhaga._kernel.wait import deadlock

    deadlock.RECHECK_SECONDS = 0.01
    libc = ctypes.CDLL(None)

    class Notice(ctypes.Structure):  # struct sigevent
        _fields_ = [
            ("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("kind", ctypes.c_int), ("function", ctypes.c_void_p),
            ("rest", ctypes.c_char * 64),
        ]

    def begin(future):
        # glibc calls a function in a thread that Python does not know before
        loop = future.get_loop()
        end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: loop.call_soon_threadsafe(future.set_result, "ended"))
        kept.append(end)
        notice = Notice(kind=2, function=ctypes.cast(end, ctypes.c_void_p).value)
        timer = ctypes.c_void_p()
        assert not libc.timer_create(1, ctypes.byref(notice), ctypes.byref(timer))
        assert not libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 300_000_000), None)
        return future

    def new_future():
        return asyncio.Future(loop=dhaga.current().scheduler.loop)

    async def native():
        return await begin(asyncio.get_running_loop().create_future())

    async def native_in_a_task():
        return await asyncio.create_task(native())

    def of_another_task():
        event = threading.Event()
        async def sets():
            print(await native())
            event.set()
        task = dhaga.current().scheduler.loop.create_task(sets())
        event.wait()

    kept = []
"""


@pytest.mark.skipif(sys.platform != "linux", reason="timers that start threads are glibc's")
@pytest.mark.parametrize(
    "wait",
    [
        "print(dhaga.await_(begin(new_future())))",
        "print(dhaga.spawn(dhaga.await_, begin(new_future())).result())",
        "print(dhaga.await_(native()))",
        "print(dhaga.await_(native_in_a_task()))",
        "of_another_task()",
    ],
)
def test_a_future_that_a_thread_unknown_to_python_ends_is_no_deadlock(wait: str) -> None:
    assert prints(f"{NATIVE}\n    {wait}") == ["ended"]


def test_a_coroutine_that_waits_for_a_dhaga_is_one() -> None:
    async def calls() -> None:
        await aio.run_in_dhaga(Event().wait, name="d")

    _, call, *_ = lines_of(lambda: dhaga.await_(calls()))
    assert call.startswith("d: waits for event.wait on <Event unset")


def test_a_task_that_waits_for_a_dhaga_is_one() -> None:
    d = dhaga.spawn(dhaga.park, "nothing", name="d")

    async def waits() -> None:
        await d

    async def in_a_task() -> None:
        await asyncio.create_task(waits())

    assert lines_of(lambda: dhaga.await_(in_a_task()))[1:] == ["d: waits for nothing"]
    with pytest.raises(dhaga.Cancelled):  # the cancelled coroutine has let go of it
        d.cancel()
        d.result()


def test_a_call_in_a_worker_dhaga_is_one() -> None:
    event = Event()

    async def waits() -> bool:
        return await executor.submit(event.wait)

    with futures.Executor() as executor:
        for wait in (lambda: dhaga.await_(executor.submit(event.wait)), lambda: dhaga.await_(waits())):
            _, *workers = lines_of(wait)
            assert workers and all("event.wait" in each for each in workers)
        event.set()


def test_the_body_of_an_asynchronous_block_is_one() -> None:
    """Its Task waits for the calls of a dhaga."""

    class Manager:
        async def __aenter__(self) -> None:
            pass

        async def __aexit__(self, *_: object) -> None:
            pass

    with aio.enter(Manager()):
        assert lines_of(lambda: dhaga.park("nothing")) == ["main code: waits for nothing"]
