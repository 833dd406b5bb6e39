"""Scopes: what is refused, and what is around them: threads, schedulers, coroutines, memory."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import Cancelled, Scope, fail_after, move_on_after, race, shield
from dhaga.queue import Queue
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Event
from tests.kit.scopes import errors_in, works

# ---- misuse


def test_what_cannot_be_spawned_is_refused_at_once() -> None:
    async def coroutine_function() -> None: ...

    with virtual_clock():
        with Scope() as scope:
            for bad, text in ((3, "needs a function to call"), (coroutine_function, "is a coroutine function")):
                with pytest.raises(TypeError, match=text):
                    scope.spawn(bad)
                with pytest.raises(TypeError, match=text):
                    race(lambda: 1, bad)
            with pytest.raises(TypeError, match="priority"):
                scope.spawn(works, priority=7)
            assert not scope._children
        with pytest.raises(ValueError, match="at least one"):
            race()


def test_timeouts_are_numbers_from_zero_on_or_none() -> None:
    for make in (Scope, fail_after, move_on_after, lambda seconds: race(lambda: 1, timeout=seconds)):
        for bad in (-1, -0.001, float("nan"), float("-inf")):
            with pytest.raises(ValueError, match="from 0 on"):
                make(bad)
        with pytest.raises(TypeError, match="seconds or None"):
            make("3")
    with virtual_clock():
        with pytest.raises(TimeoutError), Scope(0):
            dhaga.park("x")
        with Scope(0):
            Queue[int]().put(1)


def test_a_scope_takes_no_dhagas_before_and_after_its_block() -> None:
    with virtual_clock():
        scope = Scope(name="once")
        with pytest.raises(RuntimeError, match="<Scope once not entered> takes no dhagas"):
            scope.spawn(works)
        with pytest.raises(RuntimeError, match="nothing to cancel before"):
            scope.cancel()
        with pytest.raises(RuntimeError, match="cannot be left"):
            scope.__exit__(None, None, None)
        with scope:
            pass
        with pytest.raises(RuntimeError, match="<Scope once ended> takes no dhagas"):
            scope.spawn(works)


def test_a_scope_and_a_shield_are_entered_once() -> None:
    with virtual_clock():
        for block in (Scope(), shield()):
            with block:
                with pytest.raises(RuntimeError, match="already entered or was used before"), block:
                    pass
            with pytest.raises(RuntimeError, match="already entered or was used before"), block:
                pass


def test_a_scope_is_left_by_whom_it_was_entered_by() -> None:
    def generator() -> Iterator[Scope]:
        with Scope(name="lent") as scope:
            yield scope

    with virtual_clock():
        lent = generator()
        scope = next(lent)
        handle = scope.spawn(dhaga.sleep, 1000)
        with pytest.raises(RuntimeError, match="Scope lent cancelled, 1 child> is left by another caller"):
            with shield():
                dhaga.spawn(next, lent).result()
        assert scope.cancel_called
        with shield():
            handle.join()
        with pytest.raises(Cancelled):  # it stands: its block has not ended
            dhaga.sleep(1)
        scope.__exit__(None, None, None)
        dhaga.sleep(1)


def test_a_shield_is_left_by_whom_it_was_entered_by() -> None:
    with virtual_clock():
        block = shield()
        with block:
            with pytest.raises(RuntimeError, match="enter and leave it in the same dhaga"):
                dhaga.spawn(block.__exit__).result()


def test_a_scope_that_is_left_before_one_within_says_so() -> None:
    with virtual_clock():
        outer, inner = Scope(name="outer"), Scope(name="inner")
        outer.__enter__()
        inner.__enter__()
        handle = outer.spawn(dhaga.sleep, 1000)
        (error,) = errors_in(lambda: outer.__exit__(None, None, None))
        assert "is left before <Scope inner" in str(error) and handle.has_ended
        inner.__exit__(None, None, None)
        dhaga.sleep(1)


def test_another_os_thread_may_only_cancel() -> None:
    problems: list[str] = []

    def uses(scope: Scope) -> None:
        for use in (lambda: scope.spawn(works), lambda: scope.__exit__(None, None, None)):
            try:
                use()
            except RuntimeError as error:
                problems.append(str(error))

    with Scope(name="here") as scope:
        thread = threading.Thread(target=uses, args=(scope,))
        thread.start()
        scope.spawn(dhaga.sleep, 1000)
    thread.join()
    assert "lives in another OS thread" in problems[0] and "is left by another caller" in problems[1]


def test_a_dhaga_of_another_scheduler_may_only_cancel() -> None:
    def tries() -> None:
        with pytest.raises(RuntimeError, match="lives in another OS thread"):
            scope.spawn(works)
        scope.cancel()

    with dhaga.Scheduler() as other:
        with Scope(name="here") as scope:
            scope.spawn(dhaga.sleep, 1000)
            with shield():
                other.spawn(tries).result()
        assert scope.cancelled_caught


def test_a_child_that_waits_for_itself_is_told_so() -> None:
    def child() -> None:
        dhaga.current().join()

    def block() -> None:
        with Scope() as scope:
            scope.spawn(child)

    with virtual_clock():
        (error,) = errors_in(block)
        assert "waits for its own end" in str(error)


def test_coroutines_are_told_the_way() -> None:
    async def main() -> None:
        for block in (Scope(), shield(), fail_after(1)):
            with pytest.raises(dhaga.ParkError, match=r"dhaga\.spawn"), block:
                pass
        with pytest.raises(dhaga.ParkError, match=r"dhaga\.spawn"):
            race(lambda: 1)
        assert await dhaga.spawn(in_a_dhaga) == 3

    def in_a_dhaga() -> object:
        with Scope() as scope:
            scope.spawn(dhaga.sleep, 0.001)
        return race(lambda: 3)

    asyncio.run(main())


# ---- what is around


def test_a_plain_os_thread_may_open_a_scope() -> None:
    results: list[Any] = []

    def thread() -> None:
        with Scope() as scope:
            handles = [scope.spawn(works, 0.001, []) for _ in range(3)]
        results.append([handle.result() for handle in handles])
        with pytest.raises(TimeoutError), fail_after(0.001):
            dhaga.sleep(1000)
        results.append("done")

    plain = threading.Thread(target=thread)
    plain.start()
    plain.join()
    assert results == [[0.001] * 3, "done"]


def test_a_scheduler_that_stops_ends_scopes_and_what_is_shielded_ends_first() -> None:
    trace: list[Any] = []
    opened = threading.Event()

    def body() -> None:
        with Scope() as scope:
            scope.spawn(works, 1000, trace)
            scope.spawn(shielded)
            scope.spawn(opened.set)

    def shielded() -> None:
        with shield():
            dhaga.sleep(0.01)
            trace.append("shielded")

    with dhaga.Scheduler(name="stopping") as scheduler:
        handle = scheduler.spawn(body)
        opened.wait()
    assert handle.has_ended and isinstance(handle._error, Cancelled)
    assert sorted(map(str, trace)) == ["(1000, 'stopping stops')", "shielded"]


def test_a_stop_with_a_timeout_names_what_a_shield_keeps_alive() -> None:
    begun, go = threading.Event(), Event()

    def child() -> None:
        with shield():
            begun.set()
            go.wait()

    def body() -> None:
        with Scope() as scope:
            scope.spawn(child, name="keeper")

    scheduler = dhaga.Scheduler(name="stopping").start()
    scheduler.spawn(body, name="body")
    begun.wait()
    with pytest.raises(TimeoutError, match=r"<Dhaga body WAITING scope .*<Dhaga keeper WAITING event"):
        scheduler.stop(0.05)
    go.set()
    scheduler.stop()


def test_a_child_awaited_by_a_coroutine() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[dhaga.Dhaga] = loop.create_future()

        def body() -> None:
            with Scope() as scope:
                ready.set_result(scope.spawn(works, 0.001, []))

        block = dhaga.spawn(body)
        assert await (await ready) == 0.001
        await block

    asyncio.run(main())


def test_a_scope_goes_with_its_last_reference() -> None:
    def block(error: Exception | None) -> weakref.ref[Scope]:
        try:
            with Scope() as scope:
                scope.spawn(works, 1, [], error)
                scope.spawn(works, 2, [])
        except* ValueError:
            pass
        return weakref.ref(scope)

    gc.collect()
    gc.disable()
    try:
        with virtual_clock():
            for error in (None, ValueError()):
                assert block(error)() is None
                error = None
            with move_on_after(1) as scope:
                dhaga.sleep(2)
            reference = weakref.ref(scope)
            del scope
            assert reference() is None

            def waits_in_vain() -> None:
                with Scope() as scope:
                    scope.spawn(works, 1, [], ValueError())
                    Queue[int]().get(timeout=0.5)

            d = dhaga.spawn(waits_in_vain)
            d.result_waiters = 1
            d.join()
            dhaga.sleep()  # the last place of a waiter stays with it
            dead = weakref.ref(d)
            del d
            assert dead() is None
    finally:
        gc.enable()


def test_ten_thousand_children_and_a_hundred_scopes_in_each_other() -> None:
    def nest(depth: int) -> None:
        with Scope() as scope:
            if depth:
                scope.spawn(nest, depth - 1)
            else:
                dhaga.sleep(1000)

    with virtual_clock() as clock:
        with Scope() as scope:
            for _ in range(10_000):
                scope.spawn(dhaga.sleep, 1)
            settle()
            scope.cancel()
        assert clock() == 0 and not scope._children
        with move_on_after(0.5) as scope:
            nest(100)
        assert clock() == 0.5


def test_at_every_park_a_cancel_ends_all_and_loses_nothing() -> None:
    began: set[Any] = set()

    def scenario() -> tuple[dhaga.Dhaga, Callable[[], object]]:
        trace: list[Any] = []
        begun: list[Any] = []

        def child(seconds: float) -> None:
            begun.append(seconds)
            try:
                dhaga.sleep(seconds)
            finally:
                with shield():
                    dhaga.sleep(1)
                trace.append(seconds)

        def body() -> None:
            with Scope() as outer:
                outer.spawn(child, 2)
                with move_on_after(3) as inner:
                    inner.spawn(child, 1)
                    inner.spawn(child, 5)
                    dhaga.sleep(1)
                dhaga.sleep(1)
            try:
                race(lambda: child(1), lambda: child(2), timeout=5)
            except TimeoutError:
                pass

        def check() -> None:
            assert sorted(trace) == sorted(begun)
            began.update(begun)

        def tolerant() -> None:
            try:
                body()
            except* TimeoutError:
                pass

        return dhaga.spawn(tolerant, name="victim"), check

    assert cancel_at_every_park(scenario) >= 4
    assert began == {1, 2, 5}


def test_a_group_of_errors_says_once_how_to_catch_one() -> None:
    with pytest.raises(ExceptionGroup) as info, Scope(), Scope():
        raise ValueError("wrong")
    (inner,) = info.value.exceptions
    assert not hasattr(info.value, "__notes__")
    assert inner.__notes__ == ["a scope raises its errors in a group: to catch this one, write except* ValueError"]
