"""Scopes: the block ends when its dhagas have ended, and every error comes out of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import Cancelled, Scope, fail_after, move_on_after, race, shield
from dhaga.queue import Queue
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Condition, Event, Lock
from tests.scripts import Program, prints, run


def works(seconds: float, trace: list[Any], error: BaseException | None = None) -> float:
    """Sleep, then fail or return; leave a word in the trace in any case."""
    try:
        dhaga.sleep(seconds)
        if error is not None:
            raise error
    except Cancelled as cancel:
        trace.append((seconds, cancel.reason))
        raise
    else:
        trace.append(seconds)
    return seconds


def errors_in(block: Callable[[], object]) -> list[BaseException]:
    """Return what comes out of a block in a group, which must be of the least general kind."""
    try:
        block()
    except BaseExceptionGroup as group:
        assert isinstance(group, ExceptionGroup) is all(isinstance(each, Exception) for each in group.exceptions)
        return list(group.exceptions)
    pytest.fail("no error")


# ---- the block


def test_the_block_ends_when_all_children_have_ended_and_results_are_by_handle() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with Scope() as scope:
            handles = [scope.spawn(works, seconds, trace) for seconds in (3, 1, 2)]
            trace.append("body")
        assert clock() == 3
        assert trace == ["body", 1, 2, 3]
        assert [handle.result() for handle in handles] == [3, 1, 2]
        assert not scope.cancel_called and not scope.cancelled_caught and not scope.expired


def test_a_block_without_children_does_not_park() -> None:
    with virtual_clock():
        other = dhaga.spawn(lambda: None)
        with Scope():
            pass
        assert other.state == "NEW"
        other.join()


def test_children_may_spawn_while_the_body_waits_and_are_waited_for_too() -> None:
    trace: list[Any] = []

    def generation(n: int) -> None:
        dhaga.sleep(1)
        trace.append(n)
        if n:
            scope.spawn(generation, n - 1)

    with virtual_clock() as clock, Scope() as scope:
        scope.spawn(generation, 3)
    assert trace == [3, 2, 1, 0] and clock() == 4


def test_the_arguments_of_spawn_pass_through() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    context = contextvars.copy_context()
    context.run(variable.set, "given")

    def tells(*args: Any, **kwargs: Any) -> Any:
        me = dhaga.current()
        return args, kwargs, me.name, me.priority, variable.get()

    with virtual_clock(), Scope() as scope:
        handle = scope.spawn(tells, 1, 2, x=3, name="child", priority=dhaga.HIGH, context=context)
        assert isinstance(handle, dhaga.Dhaga)
    assert handle.result() == ((1, 2), {"x": 3}, "child", dhaga.HIGH, "given")


def test_children_of_a_daemon_are_daemons() -> None:
    def body() -> bool:
        with Scope() as scope:
            return scope.spawn(dhaga.sleep).daemon

    with virtual_clock():
        assert dhaga.spawn(body, daemon=True).result() is True
        assert dhaga.spawn(body).result() is False


def test_the_wait_tells_for_which_scope_and_the_repr_tells_the_state() -> None:
    with virtual_clock():
        scope = Scope(name="backup")
        assert repr(scope) == "<Scope backup not entered>"

        def body() -> None:
            with scope:
                assert repr(scope) == "<Scope backup open, 0 children>"
                scope.spawn(works, 5, [])

        d = dhaga.spawn(body)
        settle()
        assert d.reason == "scope backup" and d.waits_on is scope
        assert repr(scope) == "<Scope backup open, 1 children>"
        scope.cancel()
        assert repr(scope) == "<Scope backup cancelled, 1 children>"
        d.join()
        assert repr(scope) == "<Scope backup ended>"
        with pytest.raises(TimeoutError), fail_after(1, name="late") as scope:
            try:
                dhaga.sleep(2)
            finally:
                assert repr(scope) == "<Scope late expired, 0 children>"


def test_the_tree_of_scopes_can_be_walked() -> None:
    seen: list[Any] = []

    def child() -> None:
        with Scope(name="inner") as inner:
            seen.append((inner.parent, inner.waiter))
            dhaga.sleep(1)

    with virtual_clock():
        with Scope(name="outer") as outer:
            with Scope(name="same dhaga") as same:
                assert same.parent is outer and outer.parent is None
                handle = same.spawn(child)
                settle()
                assert list(same.children) == [handle]
                assert [scope.name for scope in handle.pending.scopes] == ["inner"]  # type: ignore[attr-defined]
                assert seen == [(same, handle)]
        assert same.parent is None and not same.children


# ---- errors


def test_an_error_of_a_child_cancels_siblings_and_body_and_comes_out_in_a_group() -> None:
    trace: list[Any] = []
    error = ValueError("of a child")

    def block() -> None:
        with Scope(name="work") as scope:
            scope.spawn(works, 1, trace, error, name="bad")
            scope.spawn(works, 5, trace)
            works(9, trace)

    with virtual_clock() as clock:
        assert errors_in(block) == [error]
        assert clock() == 1
    assert sorted(trace) == [(5, "bad failed"), (9, "bad failed")]


def test_an_error_of_a_child_ends_the_wait_at_the_end_of_the_block_too() -> None:
    trace: list[Any] = []

    def block() -> None:
        with Scope() as scope:
            scope.spawn(works, 5, trace)
            scope.spawn(works, 1, trace, OSError())

    with virtual_clock() as clock:
        assert [type(error) for error in errors_in(block)] == [OSError]
        assert clock() == 1 and len(trace) == 1


def test_all_errors_come_out_the_bodys_first_each_once() -> None:
    def fails_when_cancelled(error: Exception) -> None:
        try:
            dhaga.sleep(100)
        finally:
            raise error

    a, b, c = ValueError("a"), KeyError("b"), OSError("c")

    def block() -> None:
        with Scope() as scope:
            scope.spawn(fails_when_cancelled, b)
            settle()
            scope.spawn(fails_when_cancelled, c)
            settle()
            raise a

    def asks() -> None:
        with Scope() as scope:
            handle = scope.spawn(works, 0, [], a)
            with shield():
                handle.result()

    with virtual_clock():
        first, *others = errors_in(block)
        assert first is a and len(others) == 2 and set(others) == {b, c}
        assert errors_in(asks) == [a]


def test_an_error_of_the_body_cancels_the_children_and_comes_out_in_a_group() -> None:
    trace: list[Any] = []
    error = LookupError()

    def block() -> None:
        with Scope() as scope:
            scope.spawn(works, 5, trace)
            settle()
            raise error

    with virtual_clock() as clock:
        assert errors_in(block) == [error] and clock() == 0
    assert trace == [(5, "its body has ended early")]


def test_groups_of_nested_scopes_nest() -> None:
    error = ValueError()

    def block() -> None:
        with Scope(name="outer"), Scope(name="inner") as inner:
            inner.spawn(works, 1, [], error)

    with virtual_clock():
        (group,) = errors_in(block)
    assert isinstance(group, ExceptionGroup) and group.exceptions == (error,)
    assert group.message == "scope inner"


def test_errors_do_not_go_to_the_excepthook(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(dhaga, "excepthook", told.append)

    def block() -> None:
        with Scope() as scope:
            scope.spawn(works, 1, [], ValueError())

    with virtual_clock():
        errors_in(block)
        assert not told
        dhaga.spawn(block).join()
        assert [args.exc_type for args in told] == [ExceptionGroup]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_comes_out_as_it_is_when_it_is_alone_and_else_in_a_base_group(kind: type[BaseException]) -> None:
    exit = kind()

    def by_child() -> None:
        with Scope() as scope:
            scope.spawn(works, 1, [], exit)

    def by_body() -> None:
        with Scope() as scope:
            scope.spawn(works, 1, [])
            raise exit

    def with_another() -> None:
        with Scope() as scope:
            scope.spawn(works, 1, [], exit)
            scope.spawn(works, 1, [], ValueError())

    with virtual_clock():
        for block in (by_child, by_body):
            with pytest.raises(kind) as info:
                block()
            assert info.value is exit
        assert {type(error) for error in errors_in(with_another)} == {kind, ValueError}
        dhaga.sleep(1)  # it came out once only


def test_an_exit_of_a_child_deep_down_reaches_the_main_code(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(dhaga, "excepthook", told.append)

    def body(*errors: BaseException) -> None:
        with Scope(), Scope() as scope:
            for error in errors:
                scope.spawn(works, 1, [], error)

    with virtual_clock():
        for errors in ([SystemExit(3)], [ValueError(), SystemExit(3)]):
            assert not told
            dhaga.spawn(body, *errors)
            with pytest.raises(SystemExit) as info:
                dhaga.sleep(5)
            assert info.value.code == 3
            dhaga.sleep(1)
    assert [args.exc_type for args in told] == [BaseExceptionGroup]  # of the ValueError, too, somebody is told


def test_a_child_that_is_cancelled_by_itself_is_no_error() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        with Scope() as scope:
            handle = scope.spawn(works, 5, trace)
            scope.spawn(works, 3, trace)
            dhaga.sleep(1)
            handle.cancel("not needed")
        assert clock() == 3 and trace == [(5, "not needed"), 3]
        assert not scope.cancel_called and not scope.cancelled_caught


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
        assert not trace and early.done and late.done
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


# ---- shield


def test_a_shield_holds_off_what_comes_from_outside_until_its_end() -> None:
    trace: list[Any] = []

    def shielded() -> None:
        with shield():
            dhaga.sleep(5)
            trace.append(clock())
        trace.append("no park yet")
        dhaga.sleep(1)
        trace.append("never")

    with virtual_clock() as clock:
        d = dhaga.spawn(shielded)
        dhaga.sleep(1)
        d.cancel("plain")
        with pytest.raises(Cancelled, match="plain"):
            d.result()
        with move_on_after(1):
            shielded()
        with pytest.raises(TimeoutError), dhaga.Timeout(1):
            shielded()
        with Scope() as scope:
            scope.spawn(shielded)
            dhaga.sleep(1)
            scope.cancel()
    assert trace == [5, "no park yet", 10, "no park yet", 15, "no park yet", 20, "no park yet"]


def test_what_is_entered_within_a_shield_works() -> None:
    with virtual_clock() as clock:
        with move_on_after(1) as outer:
            with shield():
                with move_on_after(3) as scope:
                    dhaga.sleep(100)
                assert clock() == 3 and scope.cancelled_caught
                with pytest.raises(TimeoutError), dhaga.Timeout(2):
                    dhaga.sleep(100)
                assert clock() == 5
                with shield(), shield():
                    dhaga.sleep(1)
                dhaga.sleep(1)
            dhaga.sleep(1)
        assert clock() == 7 and outer.cancelled_caught


def test_a_shield_within_a_timeout_within_a_shield() -> None:
    with virtual_clock() as clock:
        with move_on_after(1) as outer:
            with shield():
                with pytest.raises(TimeoutError):
                    with dhaga.Timeout(2):
                        with shield():
                            dhaga.sleep(4)
                        dhaga.sleep(1)
                assert clock() == 4
                with dhaga.Timeout(1):
                    with shield():
                        dhaga.sleep(4)
                dhaga.sleep(1)  # of the second Timeout nothing is left
            assert clock() == 9
            dhaga.sleep(1)
        assert outer.cancelled_caught


def test_a_shield_in_a_finally_lets_it_park_in_a_cancelled_scope() -> None:
    trace: list[Any] = []

    def child() -> None:
        try:
            dhaga.sleep(100)
        finally:
            with shield():
                dhaga.sleep(1)
                trace.append("put away")
            dhaga.sleep(1)
            trace.append("never")

    with virtual_clock() as clock:
        with Scope() as scope:
            scope.spawn(child)
            settle()
            scope.cancel()
        assert clock() == 1 and trace == ["put away"]


def test_ctrl_c_and_exits_are_not_held_off() -> None:
    with virtual_clock() as clock:
        dhaga.spawn(works, 1, [], KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt), shield():
            dhaga.sleep(100)
        assert clock() == 1


# ---- race


def test_a_race_returns_the_first_success_and_cancels_the_rest() -> None:
    trace: list[Any] = []
    with virtual_clock() as clock:
        assert race(lambda: works(3, trace), lambda: works(2, trace), lambda: works(1, trace, OSError())) == 2
        assert clock() == 2 and (3, "race: <lambda> was first") in trace
        assert race(lambda: None, lambda: works(1, trace)) is None
        assert race(lambda: 1) == 1


def test_a_race_that_all_lose_raises_all_errors() -> None:
    a, b = OSError("a"), ValueError("b")
    with virtual_clock() as clock:
        assert errors_in(lambda: race(lambda: works(2, [], a), lambda: works(1, [], b))) == [b, a]
        assert clock() == 2


def test_a_race_has_a_timeout_whose_cause_are_the_errors_until_then() -> None:
    with virtual_clock() as clock:
        with pytest.raises(TimeoutError, match="none has succeeded within 2 s") as info:
            race(lambda: works(3, []), lambda: works(1, [], OSError("early")), timeout=2)
        assert clock() == 2
        assert isinstance(info.value.__cause__, ExceptionGroup)
        assert [str(error) for error in info.value.__cause__.exceptions] == ["early"]
        with pytest.raises(TimeoutError) as info:
            race(lambda: works(3, []), timeout=2)
        assert info.value.__cause__ is None


def test_a_race_that_is_cancelled_cancels_all() -> None:
    trace: list[Any] = []
    with virtual_clock():
        d = dhaga.spawn(race, lambda: works(1, trace), lambda: works(2, trace))
        settle()
        d.cancel("no race")
        with pytest.raises(Cancelled, match="no race"):
            d.result()
    assert len(trace) == 2


def test_an_exit_in_a_race_is_no_attempt_that_failed() -> None:
    with virtual_clock():
        with pytest.raises(SystemExit):
            race(lambda: works(1, [], SystemExit()), lambda: works(2, []))


def test_a_lost_wait_for_somebody_cancelled_is_an_attempt_that_failed() -> None:
    with virtual_clock():
        other = dhaga.spawn(dhaga.sleep, 10)
        other.cancel()
        assert race(other.result, lambda: works(1, [])) == 1
        with pytest.raises(BaseExceptionGroup) as info:
            race(other.result)
        assert [type(error) for error in info.value.exceptions] == [Cancelled]


# ---- misuse


def test_what_cannot_be_spawned_is_refused_at_once() -> None:
    async def coroutine_function() -> None: ...

    with virtual_clock():
        with Scope() as scope:
            for bad, text in ((3, "needs a function to call"), (coroutine_function, "is a coroutine function")):
                with pytest.raises(TypeError, match=text):
                    scope.spawn(bad)  # type: ignore[arg-type]
                with pytest.raises(TypeError, match=text):
                    race(lambda: 1, bad)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="priority"):
                scope.spawn(works, priority=7)  # type: ignore[arg-type]
            assert not scope.children
        with pytest.raises(ValueError, match="at least one"):
            race()


def test_timeouts_are_numbers_from_zero_on_or_none() -> None:
    for make in (Scope, fail_after, move_on_after, lambda seconds: race(lambda: 1, timeout=seconds)):
        for bad in (-1, -0.001, float("nan"), float("-inf")):
            with pytest.raises(ValueError, match="from 0 on"):
                make(bad)
        with pytest.raises(TypeError, match="seconds or None"):
            make("3")  # type: ignore[arg-type]
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
                with pytest.raises(RuntimeError, match="entered already or was used before"), block:
                    pass
            with pytest.raises(RuntimeError, match="entered already or was used before"), block:
                pass


def test_a_scope_is_left_by_whom_it_was_entered_by() -> None:
    def generator() -> Iterator[Scope]:
        with Scope(name="lent") as scope:
            yield scope

    with virtual_clock():
        lent = generator()
        scope = next(lent)
        handle = scope.spawn(dhaga.sleep, 1000)
        with pytest.raises(RuntimeError, match="Scope lent cancelled, 1 children> is left by somebody"):
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
        assert "is left before <Scope inner" in str(error) and handle.done
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
    assert "lives in another OS thread" in problems[0] and "is left by somebody else" in problems[1]


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
        dhaga.current().join()  # type: ignore[union-attr]

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
    assert handle.done and isinstance(handle.fault, Cancelled)
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
            d.asked = 1
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
        assert clock() == 0 and not scope.children
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


# ---- fork

FORKING = """
import os, warnings, dhaga
from dhaga import Cancelled, Scope, fail_after, shield

warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork")

def in_forked_child(goes_on):
    if (pid := os.fork()) == 0:
        try:
            goes_on()
            os._exit(7)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def cut_short(wait):
    try:
        wait()
    except (Cancelled, TimeoutError) as error:
        return error

"""


@pytest.mark.parametrize("where", ["body()", "dhaga.spawn(body).result()"])
def test_a_body_that_forks_leaves_its_block_in_the_child_without_waiting_for_the_parents_dhagas(where: str) -> None:
    assert prints(
        FORKING
        + f"""
def body():
    outer = Scope(name="outer").__enter__()
    scope = fail_after(1000, name="forked").__enter__()
    handle = scope.spawn(dhaga.sleep, 0.02)

    def goes_on():
        own = scope.spawn(dhaga.sleep, 0.001)
        scope.__exit__(None, None, None)
        assert own.done and handle not in scope.children
        with shield():
            outer.cancel()
            dhaga.sleep(0.001)
        error = cut_short(lambda: dhaga.sleep(1))
        assert error.scope is outer and outer.__exit__(Cancelled, error, None) is True
        dhaga.sleep(0)

    print(in_forked_child(goes_on))
    assert not handle.done
    scope.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    print(handle.done, outer.cancel_called)

{where}
"""
    ) == ["7", "True False"]


def test_deadlines_and_shields_that_are_in_force_go_along_with_a_fork() -> None:
    assert prints(
        FORKING
        + """
def goes_on():
    shielded.__exit__(None, None, None)
    error = cut_short(lambda: dhaga.sleep(10))
    assert error.scope is scope
    assert isinstance(cut_short(lambda: scope.__exit__(Cancelled, error, None)), TimeoutError)

def block():
    global shielded, scope
    with fail_after(0.05) as scope:
        shielded = shield()
        with shielded:
            print(in_forked_child(goes_on))
        dhaga.sleep(10)

print(repr(cut_short(block)))
"""
    ) == ["7", "TimeoutError('not done within 0.05 s')"]


def test_an_error_of_a_child_whose_scope_is_in_the_parent_process_goes_to_the_excepthook() -> None:
    done = run(
        FORKING
        + """
def child():
    if os.fork() == 0:
        raise ValueError("of the child process")
    os.wait()

with Scope() as scope:
    scope.spawn(child, name="forks")
print("parent is done")
"""
    )
    assert (done.status, done.lines) == (0, ["parent is done"])
    assert "forks ended by an error that nobody handled" in done.err
    assert "ValueError: of the child process" in done.err


# ---- Ctrl-C and deadlock


def test_a_body_that_waits_for_a_child_that_nothing_could_wake_gets_the_deadlock() -> None:
    def block() -> None:
        with Scope(name="stuck") as scope:
            scope.spawn(dhaga.park, "godot")

    (error,) = errors_in(block)
    assert isinstance(error, dhaga.Deadlock)
    assert "waits for scope stuck on <Scope stuck open, 1 children>" in str(error)


def test_a_child_that_is_stuck_in_a_shield_is_reported_once_and_keeps_the_block_open() -> None:
    program = Program(
        """
import logging, sys, dhaga

class Told(logging.Handler):
    def emit(self, record):
        print(record.getMessage().splitlines()[0], flush=True)

logging.getLogger("dhaga").addHandler(Told())

def stuck():
    with dhaga.shield():
        dhaga.park("godot")

with dhaga.Scope(name="told") as scope:
    child = scope.spawn(stuck)
    dhaga.sleep(0)
    scope.cancel()
"""
    )
    program.interrupt_at("every dhaga waits, and nothing in this process could wake one:")
    time.sleep(0.3)  # a second Ctrl-C at once would be the same one
    program.process.send_signal(signal.SIGINT)
    outcome = program.outcome()
    assert outcome.lines == [] and outcome.status == 1
    assert "| dhaga.kernel.errors.Deadlock" in outcome.err and "| KeyboardInterrupt" in outcome.err


def test_a_ctrl_c_that_comes_again_ends_what_is_shielded() -> None:
    trace: list[Any] = []

    def child(depth: int) -> None:
        try:
            with Scope() as scope:
                if depth:
                    scope.spawn(child, depth - 1)
                with shield():
                    dhaga.park("for good")
        finally:
            trace.append(depth)

    def presses() -> None:
        dhaga.sleep(1)
        main.scheduler.life.interrupt(KeyboardInterrupt())  # cancels, and the shields hold that off
        dhaga.sleep(1)
        main.scheduler.life.interrupt(KeyboardInterrupt())  # stays pending
        dhaga.sleep(1)
        assert trace == []
        main.unpark(error=KeyboardInterrupt())  # goes by force

    with virtual_clock() as clock:
        main = dhaga.current()
        dhaga.spawn(presses)
        with pytest.raises(KeyboardInterrupt), Scope() as scope:
            scope.spawn(child, 2)
        assert clock() == 3 and sorted(trace) == [0, 1, 2]
        dhaga.sleep(1)


def test_a_ctrl_c_that_has_to_wait_for_the_children_comes_at_the_end_of_the_block() -> None:
    def child() -> None:
        with shield():
            dhaga.sleep(1)
            main.scheduler.life.interrupt(KeyboardInterrupt())
            dhaga.sleep(1)

    with virtual_clock() as clock:
        main = dhaga.current()
        with pytest.raises(KeyboardInterrupt), Scope() as scope:
            scope.spawn(child)
            settle()
            scope.cancel()
        assert clock() == 2


INTERRUPTED = """
import dhaga

def child():
    try:
        dhaga.sleep(60)
    finally:
        with dhaga.shield():
            dhaga.sleep(0.01)
        print("put away")

with dhaga.Scope() as scope:
    for _ in range(3):
        scope.spawn(child)
    scope.spawn(print, "ready")
    {body}
"""


@pytest.mark.parametrize("body", ["dhaga.sleep(60)", "pass"])
def test_ctrl_c_ends_every_child_and_then_the_program_as_it_does_without_a_scope(body: str) -> None:
    outcome = Program(INTERRUPTED.format(body=body)).interrupt_at("ready").outcome()
    assert outcome.lines == ["put away"] * 3
    assert outcome.status == -signal.SIGINT
    assert outcome.err.rstrip().endswith("KeyboardInterrupt") and "ExceptionGroup" not in outcome.err
