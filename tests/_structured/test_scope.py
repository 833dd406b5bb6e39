"""Scopes: the block ends when its dhagas have ended, and every error comes out of it."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest

import dhaga
from dhaga import Scope, fail_after, shield
from dhaga.testing import settle, virtual_clock
from tests.kit.scopes import errors_in, works

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
        assert repr(scope) == "<Scope backup open, 1 child>"
        scope.cancel()
        assert repr(scope) == "<Scope backup cancelled, 1 child>"
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
            seen.append((inner._parent, inner._waiter))
            dhaga.sleep(1)

    with virtual_clock():
        with Scope(name="outer") as outer:
            with Scope(name="same dhaga") as same:
                assert same._parent is outer and outer._parent is None
                handle = same.spawn(child)
                settle()
                assert list(same._children) == [handle]
                assert [scope.name for scope in handle.pending_errors.scopes] == ["inner"]
                assert seen == [(same, handle)]
        assert same._parent is None and not same._children


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
