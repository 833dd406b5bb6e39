"""Locks and conditions in callbacks of the event loop, which cannot park."""

from __future__ import annotations

import threading as os_threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dhaga
from dhaga import asyncio as dhaga_asyncio
from dhaga import threading as dhaga_threading
from dhaga._sync import lock as lock_module
from dhaga.threading import Condition, Lock, RLock
from tests.kit.scripts import prints
from tests.kit.standard_calls import originals_with


def on_the_loop(call: Callable[[], Any]) -> Any:
    """Make a call in a callback of the loop. Returns, raises: what it does."""
    outcome: list[Any] = []

    def callback() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)
        me.wake()

    me = dhaga.current()
    me.scheduler.loop.call_soon(callback)
    dhaga.park("the callback")
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_notifier_on_the_loop_can_take_the_lock_again_at_once(kind: Any) -> None:
    condition = Condition(kind())
    got: list[bool] = []
    waiting: list[bool] = []

    def wait() -> None:
        with condition:
            waiting.append(True)
            got.append(condition.wait(10))
            got.append(condition._is_owned())

    def notify_twice() -> None:
        for _ in range(2):
            with condition:
                condition.notify_all()

    waiters = [dhaga.spawn(wait) for _ in range(3)]
    while len(waiting) < 3:
        dhaga.sleep(0)
    with condition:  # once the last one has released the lock, it waits
        pass
    on_the_loop(notify_twice)
    for each in waiters:
        each.join()
    assert got == [True] * 6
    assert not condition.locked()


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_waiters_notified_on_the_loop_go_before_callers_that_came_later(kind: Any) -> None:
    condition = Condition(kind())
    order: list[str] = []

    def wait(name: str) -> None:
        with condition:
            condition.wait()
            order.append(name)

    def enter(name: str) -> None:
        with condition:
            order.append(name)

    def notify() -> None:
        condition.notify_all()  # the main code holds the lock, which a Lock does not ask about

    waiters = [dhaga.spawn(wait, "first"), dhaga.spawn(wait, "second")]
    dhaga.sleep(0)
    condition.acquire()
    later = dhaga.spawn(enter, "later")
    dhaga.sleep(0)
    if kind is Lock:
        on_the_loop(notify)
    else:
        notify()
    dhaga.sleep(0)
    condition.release()
    for each in [*waiters, later]:
        each.join()
    assert order == ["first", "second", "later"]


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_lock_that_another_os_thread_holds_for_a_moment_is_waited_for(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "LOOP_PATIENCE", 60.0)
    lock = kind()
    held, asked = os_threading.Event(), os_threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            asked.wait()

    def enter() -> bool:
        asked.set()
        with lock:
            return bool(lock.locked())

    thread = os_threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert on_the_loop(enter)
    thread.join()
    assert not lock.locked()


@contextmanager
def held_in_another_thread(lock: Any) -> Iterator[None]:
    held, done = os_threading.Event(), os_threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = os_threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_lock_that_another_os_thread_keeps_is_refused(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "LOOP_PATIENCE", 0.01)
    lock = kind()
    with held_in_another_thread(lock), pytest.raises(dhaga.ParkError):
        on_the_loop(lock.acquire)


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_short_timeout_ends_the_wait_for_another_os_thread(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "LOOP_PATIENCE", 1e6)
    lock = kind()
    with held_in_another_thread(lock):
        assert on_the_loop(lambda: lock.acquire(timeout=0.001)) is False
    assert not lock.locked()


def refuse_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause of a lock raise TypeError. Pauses of other modules, such as that of a mutex, are allowed."""
    monkeypatch.setattr(lock_module, "originals", originals_with(thread_sleep=None))


def test_a_coroutine_on_a_loop_that_parks_parks_for_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_pauses(monkeypatch)
    lock = Lock()
    held = os_threading.Event()
    go_on = dhaga_threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            go_on.wait()

    async def enter() -> bool:
        with lock:
            return lock.locked()

    thread = os_threading.Thread(target=hold)
    thread.start()
    held.wait()
    setter = dhaga.spawn(go_on.set)  # runs once main code parks for the lock
    assert dhaga_asyncio.run(enter())
    setter.join()
    thread.join()


@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_lock_that_a_dhaga_or_main_code_of_this_thread_holds_is_refused_at_once(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_pauses(monkeypatch)
    lock = kind()
    with lock, pytest.raises(dhaga.ParkError):
        on_the_loop(lock.acquire)
    holder = dhaga.spawn(lambda: lock.acquire() and dhaga.park("for the lock") and lock.release())
    dhaga.sleep(0)
    with pytest.raises(dhaga.ParkError):
        on_the_loop(lock.acquire)
    holder.wake(True)
    holder.join()


@pytest.mark.process
@pytest.mark.parametrize("start", ["threading.Thread(target=ask)", "Offloaded()"])
def test_calls_of_run_coroutine_threadsafe_return_without_an_error_in_a_patched_program(start: str) -> None:
    assert prints(
        f"""
        import asyncio, logging, threading
        import dhaga, dhaga.monkey
        dhaga.monkey.patch()
        records = []
        class Keep(logging.Handler):
            def handle(self, record): records.append(record.getMessage())
        logging.getLogger().addHandler(Keep())
        loop = dhaga.current().scheduler.loop
        def ask():
            for number in range(200):
                assert asyncio.run_coroutine_threadsafe(asyncio.sleep(0, number), loop).result(60) == number
        class Offloaded:
            def start(self): self.dhaga = dhaga.spawn(dhaga.offload, ask)
            def join(self): self.dhaga.result()
        threads = [{start} for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(records[:3])
        """
    ) == ["[]"]
