"""Scopes: cancels, deadlines and shields."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import Cancelled, Scope, fail_after, move_on_after, shield
from dhaga.queue import Queue
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Condition, Event, Lock
from tests.kit.scopes import errors_in, works

# ---- cancel


def test_cancel_ends_children_and_body_and_is_no_error() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with Scope() as scope:
            scope.spawn(works, 5, trace)
            scope.spawn(lambda: (dhaga.sleep(1), scope.cancel("enough")))
            works(7, trace)
        assert clock() == 1 and sorted(trace) == [(5, "enough"), (7, "enough")]
        assert scope.cancel_called and scope.cancelled_caught and not scope.expired
        assert scope.cancel() is False
        dhaga.sleep(1)  # nothing is left of it


def test_cancel_while_the_block_waits_for_its_end_is_for_the_children() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with Scope() as scope:
            scope.spawn(works, 5, trace)
            scope.spawn(lambda: (dhaga.sleep(1), scope.cancel("enough")))
        assert clock() == 1 and trace == [(5, "enough")]
        assert scope.cancelled_caught
        dhaga.sleep(1)


def test_a_swallowed_cancel_comes_again_at_the_next_park() -> None:
    seen: list[Any] = []

    def stubborn() -> None:
        for _ in range(3):
            try:
                dhaga.sleep(10)
            except Cancelled as cancel:
                seen.append(cancel)
        queue.put("does not park")
        Lock().acquire()

    queue: Queue[str] = Queue()
    with virtual_clock() as clock:
        with Scope() as scope:
            scope.spawn(stubborn)
            dhaga.sleep(1)
            scope.cancel("reason")
            stubborn()
        assert clock() == 1 and queue.qsize() == 2
        assert len(seen) == 6 and len(set(map(id, seen))) == 6
        assert {(cancel.reason, cancel.scope) for cancel in seen} == {("reason", scope)}
        assert not scope.cancelled_caught  # it cut nothing short
        dhaga.sleep(1)


@pytest.mark.parametrize("wait", ["sleep", "yield", "lock", "queue", "event", "join", "park", "condition", "foreign"])
def test_each_way_to_wait_raises_it_again(wait: str) -> None:
    with virtual_clock():
        lock, queue, event, condition = Lock(), Queue[int](), Event(), Condition()
        foreign = Condition(ForeignLock())
        lock.acquire()
        other = dhaga.spawn(dhaga.sleep, 1000)
        ways: dict[str, Callable[[], object]] = {
            "sleep": lambda: dhaga.sleep(1),
            "yield": dhaga.sleep,
            "lock": lock.acquire,
            "queue": queue.get,
            "event": event.wait,
            "join": other.join,
            "park": lambda: dhaga.park("x"),
            "condition": lambda: waits_on(condition),
            "foreign": lambda: waits_on(foreign),
        }
        counts = []
        with Scope() as scope:

            def child() -> None:
                for way in (lambda: dhaga.sleep(100), ways[wait], ways[wait]):
                    with pytest.raises(Cancelled):
                        way()
                    counts.append(1)

            scope.spawn(child)
            settle()
            scope.cancel()
        assert counts == [1, 1, 1]
        other.cancel()
        other.join()


class ForeignLock:
    """What a Condition cannot hand over."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.acquire = self.lock.acquire
        self.release = self.lock.release

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def waits_on(condition: Condition) -> None:
    with condition:
        condition.wait()


def test_a_condition_takes_its_lock_back_in_a_cancelled_scope_even_if_it_has_to_wait_for_it() -> None:
    for condition in (Condition(), Condition(Lock()), Condition(ForeignLock())):
        trace: list[Any] = []

        def waits(condition: Condition = condition, trace: list[Any] = trace) -> None:
            with condition:
                try:
                    condition.wait()
                finally:
                    trace.append(clock())

        with virtual_clock() as clock:
            with Scope() as scope:
                scope.spawn(waits)
                settle()
                with shield(), condition:
                    scope.cancel()
                    dhaga.sleep(2)
            assert trace == [2] and condition._lock.acquire(False)
            condition._lock.release()


def test_a_child_spawned_after_the_cancel_does_not_start() -> None:
    trace: list[Any] = []
    with virtual_clock():
        with Scope() as scope:
            early = scope.spawn(works, 0, trace)
            scope.cancel()
            late = scope.spawn(works, 0, trace)
            assert [early.state, late.state] == ["NEW", "NEW"]
        assert not trace and early.has_ended and late.has_ended
        with pytest.raises(Cancelled):
            late.result()


def test_a_cancel_of_the_dhaga_from_outside_cancels_the_children_and_passes_alone() -> None:
    trace: list[Any] = []

    def body(parked_in_body: bool) -> None:
        with Scope() as scope:
            scope.spawn(works, 5, trace)
            if parked_in_body:
                works(7, trace)

    with virtual_clock() as clock:
        for parked_in_body in (True, False):
            trace.clear()
            d = dhaga.spawn(body, parked_in_body)
            settle()
            d.cancel("from outside")
            with pytest.raises(Cancelled) as info:
                d.result()
            assert info.value.reason == "from outside" and info.value.scope is None
            assert (5, "its body has ended early") in trace and len(trace) == 1 + parked_in_body
        assert clock() == 0


def test_an_error_goes_before_a_cancel_from_outside_which_comes_at_the_next_park() -> None:
    trace: list[Any] = []

    def bad() -> None:
        try:
            dhaga.sleep(5)
        finally:
            raise ValueError

    def body() -> None:
        try:
            with Scope() as scope:
                scope.spawn(bad)
        except* ValueError:
            trace.append("error")
        dhaga.sleep(1)
        trace.append("never")

    with virtual_clock():
        d = dhaga.spawn(body)
        settle()
        d.cancel("from outside")
        with pytest.raises(Cancelled, match="from outside"):
            d.result()
    assert trace == ["error"]


def test_a_cancel_passes_scopes_within_and_ends_at_its_own() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with Scope(name="outer") as outer:
            dhaga.spawn(lambda: (dhaga.sleep(1), outer.cancel("outer")))
            with Scope(name="inner") as inner:
                inner.spawn(works, 5, trace)
                with Scope(name="innermost"):
                    works(9, trace)
            trace.append("not reached")
        assert trace == [(9, "outer"), (5, "its body has ended early")]
        assert clock() == 1
        assert outer.cancelled_caught
        with Scope(name="outer") as outer:
            with Scope(name="inner") as inner:
                inner.cancel()
                works(9, trace)
            assert inner.cancelled_caught and not outer.cancel_called
            works(1, trace)
        assert trace[2:] == [(9, None), 1]


def test_of_two_cancelled_scopes_the_outer_ones_cancel_is_raised() -> None:
    with virtual_clock():
        with Scope() as outer:
            with Scope() as inner:
                inner.cancel()
                outer.cancel()
                with pytest.raises(Cancelled) as info:
                    dhaga.sleep(1)
                assert info.value.scope is outer
                raise info.value
            pytest.fail("it went on")
        assert outer.cancelled_caught and not inner.cancelled_caught


def test_cancel_from_other_threads_and_callbacks() -> None:
    for how in ("thread", "callback"):
        with Scope() as scope:
            scope.spawn(dhaga.sleep, 1000)
            if how == "thread":
                thread = threading.Thread(target=scope.cancel, args=("by a thread",))
                thread.start()
            else:
                dhaga.current().scheduler.loop.call_soon(scope.cancel)
        assert scope.cancelled_caught
        if how == "thread":
            thread.join()


def test_a_cancel_that_strikes_late_leaves_nothing_behind() -> None:
    """The children have ended, the body is runnable: the block ends as if it had not come, and nothing stands."""
    with virtual_clock():

        def body() -> str:
            with Scope() as scope:
                scope.spawn(lambda: dhaga.spawn(scope.cancel))
            dhaga.sleep(1)
            return "done"

        assert dhaga.spawn(body).result() == "done"


# ---- deadlines


def test_a_block_that_is_not_done_in_time_raises_timeout_error() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        for make in (Scope, fail_after):
            began = clock()
            with pytest.raises(TimeoutError, match="not done within 2 s"), make(2) as scope:
                scope.spawn(works, 3, trace)
                works(5, trace)
            with pytest.raises(TimeoutError, match="not done within 2 s"), make(2) as scope:
                scope.spawn(works, 3, trace)
            assert clock() == began + 4
            assert scope.expired and scope.cancel_called and scope.cancelled_caught
        assert set(trace) == {(3, "not done within 2 s"), (5, "not done within 2 s")}


def test_move_on_after_moves_on() -> None:
    with virtual_clock() as clock:
        with move_on_after(2) as scope:
            scope.spawn(works, 3, [])
            dhaga.sleep(100)
        assert clock() == 2 and scope.cancelled_caught and scope.expired
        with move_on_after(2) as scope:
            dhaga.sleep(1)
        assert clock() == 3 and not scope.cancelled_caught and not scope.expired
        with move_on_after(None), fail_after(None), Scope(float("inf")):
            dhaga.sleep(1000)
        assert not len(dhaga.current().scheduler.timers)


def test_a_block_that_is_done_though_late_is_not_late() -> None:
    with virtual_clock() as clock:
        with fail_after(1) as scope:
            with shield():
                dhaga.sleep(2)
        assert clock() == 2 and scope.expired and not scope.cancelled_caught


def test_errors_beside_a_deadline_come_with_the_timeout_error() -> None:
    def fails_when_cancelled() -> None:
        try:
            dhaga.sleep(100)
        finally:
            raise ValueError

    def block(make: Callable[[float], Scope]) -> None:
        with make(1) as scope:
            scope.spawn(fails_when_cancelled)
            dhaga.sleep(100)

    with virtual_clock():
        assert [type(error) for error in errors_in(lambda: block(fail_after))] == [ValueError, TimeoutError]
        assert [type(error) for error in errors_in(lambda: block(move_on_after))] == [ValueError]


@pytest.mark.parametrize(("outer", "inner", "caught"), [(3, 1, "inner"), (1, 3, "outer"), (2, 2, "outer")])
@pytest.mark.parametrize("kinds", ["scope in scope", "scope in timeout", "timeout in scope"])
def test_deadlines_nest(outer: float, inner: float, caught: str, kinds: str) -> None:
    first, second = kinds.split(" in ")
    make: dict[str, Any] = {"scope": Scope, "timeout": dhaga.Timeout}
    trace = []
    with virtual_clock() as clock:
        try:
            with make[second](outer):
                try:
                    with make[first](inner):
                        dhaga.sleep(1000)
                except TimeoutError:
                    trace.append("inner")
        except TimeoutError:
            trace.append("outer")
        assert trace == [caught] and clock() == min(outer, inner)
        dhaga.sleep(10)


def test_a_timeout_around_a_scope_cancels_its_children() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with pytest.raises(TimeoutError), dhaga.Timeout(1), Scope() as scope:
            scope.spawn(works, 5, trace)
        assert clock() == 1 and trace == [(5, "its body has ended early")]


def test_errors_go_before_the_end_of_a_timeout_around_of_which_nothing_is_left() -> None:
    def fails_when_cancelled() -> None:
        try:
            dhaga.sleep(100)
        finally:
            raise ValueError

    def block() -> None:
        with dhaga.Timeout(1), Scope() as scope:
            scope.spawn(fails_when_cancelled)

    with virtual_clock():
        assert [type(error) for error in errors_in(block)] == [ValueError]
        dhaga.sleep(10)


def test_a_child_that_puts_away_for_long_is_waited_for_beyond_the_deadline() -> None:
    def child() -> None:
        try:
            dhaga.sleep(100)
        finally:
            with shield():
                dhaga.sleep(10)

    with virtual_clock() as clock:
        with move_on_after(1):
            with Scope() as inner:
                inner.spawn(child)
        assert clock() == 11
