"""A dhaga from NEW to DONE: its result, its cancel, its errors, its context, and what it leaves behind."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from greenlet import getcurrent

import dhaga
from dhaga.queue import Empty, Queue
from dhaga.testing import settle, virtual_clock
from dhaga.threading import local
from tests.kit.raised import error_of, fail

# ---- its names


def test_dir_lists_what_a_user_may_call_and_nothing_of_greenlets() -> None:
    with virtual_clock():
        d = dhaga.spawn(int)
        d.join()
    listed = dir(d)
    assert not [name for name in listed if name.startswith("_") and not name.startswith("__")]
    assert not {"run", "switch", "throw", "parent", "dead", "gr_frame"} & set(listed)
    assert {"join", "result", "cancel", "__await__", "__class__"} < set(listed) and len(listed) == len(set(listed))


# ---- result and join


def test_result_is_the_value_or_the_exception_for_everybody_who_asks() -> None:
    with virtual_clock():
        d = dhaga.spawn(lambda a, *, b: dhaga.sleep(1) or a + b, 1, b=2)
        askers = [dhaga.spawn(d.result) for _ in range(3)]
        assert [asker.result() for asker in askers] == [3, 3, 3] and d.result() == 3
        error = LookupError("x")
        d = dhaga.spawn(lambda: dhaga.sleep(1) or fail(error))
        askers = [dhaga.spawn(error_of, d.result) for _ in range(3)]
        assert all(asker.result() is error for asker in askers) and error_of(d.result) is error
        assert d.join() is None


def test_joiners_go_on_in_the_order_in_which_they_came() -> None:
    trace: list[int] = []
    with virtual_clock():
        d = dhaga.spawn(dhaga.sleep, 1)

        def joins(n: int) -> None:
            d.join()
            trace.append(n)

        for joiner in [dhaga.spawn(joins, n) for n in range(5)]:
            joiner.join()
    assert sorted(trace) == list(range(5))
    if dhaga_is_fifo():
        assert trace == list(range(5))


def dhaga_is_fifo() -> bool:
    from dhaga import testing

    return testing.seed is None


def test_join_and_result_with_a_timeout() -> None:
    with virtual_clock() as clock:
        d = dhaga.spawn(dhaga.sleep, 10)
        assert d.join(timeout=1) is None and d.is_alive() and clock() == 1
        assert d.join(timeout=0) is None and clock() == 1
        with pytest.raises(TimeoutError):
            d.result(timeout=1)
        with pytest.raises(TimeoutError, match="has not ended"):
            d.result(timeout=0)
        assert clock() == 2
        d.result(timeout=100)
        assert clock() == 10 and d.join(timeout=0) is None and not d.is_alive()


def test_a_dhaga_that_waits_for_its_own_end_is_told_so() -> None:
    def waits(name: str) -> None:
        with pytest.raises(RuntimeError, match="its own end"):
            getattr(dhaga.current(), name)()

    with virtual_clock():
        dhaga.spawn(waits, "join").result()
        dhaga.spawn(waits, "result").result()


def generator_function() -> Iterator[int]:
    yield from ()


class Generating:
    def items(self) -> Iterator[int]:
        yield 1

    async def later(self) -> AsyncIterator[int]:
        yield 1


def test_what_cannot_be_spawned_is_refused_with_what_to_do() -> None:
    async def coroutine_function() -> None: ...

    with virtual_clock():
        with pytest.raises(TypeError, match=r"spawn\(fn, \*args\)"):
            dhaga.spawn(dhaga.sleep(0))
        with pytest.raises(TypeError, match="coroutine function"):
            dhaga.spawn(coroutine_function)
        for fn in (generator_function, Generating().items, Generating().later):
            with pytest.raises(TypeError, match=r"a (generator|coroutine) function"):
                dhaga.spawn(fn)
        assert not list(dhaga.spawn(lambda: list(generator_function())).result())
        for scheduler in (print, int, Generating().items):
            with pytest.raises(TypeError, match=r"made by spawn: dhaga\.spawn\(fn, \*args\), and not dhaga\.Dhaga"):
                dhaga.Dhaga(scheduler, 1)
        with pytest.raises(TypeError, match="positional argument"):
            dhaga.spawn(lambda: None, 1).result()
        assert dhaga.spawn(functools.partial(dict, name=1, daemon=2)).result() == {"name": 1, "daemon": 2}


# ---- names, state, context


def test_names_idents_and_daemons() -> None:
    with virtual_clock():
        plain = dhaga.spawn(dhaga.sleep, 1)
        named = dhaga.spawn(dhaga.sleep, 1, name="named", daemon=True)
        assert plain.name == f"dhaga-{plain.ident}" and named.name == "named"
        assert plain.ident < named.ident and isinstance(plain.ident, int)
        assert (plain.daemon, named.daemon) == (False, True)
        named.name = "renamed"
        plain.daemon = True
        assert named.name == "renamed" and plain.daemon
        assert dhaga.spawn(lambda: dhaga.current().name, name="inside").result() == "inside"
        plain.join()
        named.join()


def test_each_state_in_its_turn() -> None:
    seen = []
    with virtual_clock():

        def runs() -> None:
            seen.append((d.state, d.is_alive()))
            dhaga.park("x")

        d = dhaga.spawn(runs)
        seen.append((d.state, d.is_alive()))
        settle()
        seen.append((d.state, d.is_alive()))
        d.wake()
        seen.append((d.state, d.is_alive()))
        d.join()
        seen.append((d.state, d.is_alive()))
    assert seen == [("NEW", True), ("RUNNING", True), ("WAITING", True), ("RUNNABLE", True), ("DONE", False)]


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_context_variables_are_copied_when_a_dhaga_is_spawned() -> None:
    def changes(value: str) -> tuple[str, str]:
        before = variable.get()
        variable.set(value)
        dhaga.sleep(1)
        return before, variable.get()

    with virtual_clock():
        token = variable.set("of the main code")
        a, b = dhaga.spawn(changes, "a"), dhaga.spawn(changes, "b")
        variable.set("changed later")
        assert (a.result(), b.result()) == (("of the main code", "a"), ("of the main code", "b"))
        assert variable.get() == "changed later"
        variable.reset(token)


def test_a_context_may_be_given_and_is_used_itself() -> None:
    with virtual_clock():
        context = contextvars.copy_context()
        context.run(variable.set, "given")

        def sets() -> str:
            value = variable.get()
            variable.set("set in the dhaga")
            return value

        assert dhaga.spawn(sets, context=context).result() == "given"
        assert context[variable] == "set in the dhaga" and variable.get() == "unset"


# ---- objects that are left behind


def test_live_dhagas_need_no_reference_and_never_see_greenlet_exit() -> None:
    trace = []

    def waits() -> None:
        try:
            dhaga.sleep(10)
            trace.append("slept")
        except BaseException as error:
            trace.append(repr(error))

    with virtual_clock():
        dhaga.spawn(waits)
        settle()
        gc.collect()
        dhaga.sleep(20)
    assert trace == ["slept"]


class Token:
    """An object that may be left behind."""


def returns(token: Token) -> Token:
    dhaga.sleep(0.001)
    with dhaga.Timeout(10):
        dhaga.sleep(0)
    return token


def raises(token: Token) -> None:
    dhaga.sleep(0.001)
    raise LookupError(token)


def times_out(token: Token) -> None:
    with dhaga.Timeout(0.001):
        dhaga.sleep(10)


def gets_nothing(token: Token) -> None:
    Queue[int]().get(timeout=0.001)


def parks(token: Token) -> None:
    dhaga.park("nothing")


@pytest.mark.parametrize("ask", ["join", "result"])
@pytest.mark.parametrize("fn", [returns, raises, times_out, gets_nothing, parks])
def test_a_finished_dhaga_goes_with_its_last_reference(fn: Any, ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs no garbage collector: its end, result or error, a cancel, a join and a Timeout leave no cycle."""
    monkeypatch.setattr(dhaga, "excepthook", lambda args: None)

    def run_once() -> list[weakref.ref[Any]]:
        token = Token()
        d = dhaga.spawn(fn, token)
        settle()
        if fn is parks:
            d.cancel()
        other = dhaga.spawn(getattr(d, ask))
        other.join()
        return [weakref.ref(token), weakref.ref(d), weakref.ref(other)]

    gc.collect()
    gc.disable()
    try:
        with virtual_clock():
            references = run_once()
            dhaga.sleep(1)
            assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()


def test_a_timeout_that_is_caught_leaves_no_cycle() -> None:
    """However often it happens, there is nothing for the garbage collector to do."""

    def waits() -> None:
        queue: Queue[int] = Queue()
        for _ in range(10):
            with contextlib.suppress(Empty):
                queue.get(timeout=0.001)
            with contextlib.suppress(TimeoutError):
                dhaga.park("x", timeout=0.001)
            with contextlib.suppress(TimeoutError), dhaga.Timeout(0.001):
                queue.get()

    with virtual_clock():
        dhaga.spawn(waits).result()
        gc.collect()
        gc.disable()
        try:
            dhaga.spawn(waits).result()
            assert gc.collect() == 0
        finally:
            gc.enable()


@pytest.mark.crowd
@pytest.mark.parametrize("count", [15_000, pytest.param(95_000, marks=pytest.mark.slow)])
def test_memory_is_flat_over_many_spawns(count: int) -> None:
    def spawns(n: int) -> int:
        for _ in range(n // 1000):
            for d in [dhaga.spawn(int) for _ in range(1000)]:
                d.join()
        gc.collect()
        return sys.getallocatedblocks()

    spawns(2000)
    before = spawns(3000)
    assert spawns(count) - before < 1000


# ---- finalizers at its end


class ParksAtItsEnd:
    """An object whose finalizer parks in a dhaga. In main code, after the test, it would make a scheduler."""

    def __del__(self) -> None:
        if isinstance(getcurrent(), dhaga.Dhaga):
            dhaga.sleep(1)


def test_a_finalizer_of_an_argument_or_a_thread_local_may_park_and_the_result_stays() -> None:
    mine = local()

    def keeps_in_thread_local() -> str:
        mine.kept = ParksAtItsEnd()
        return "local"

    def returns(*args: object, **options: object) -> int:
        return len(args) + len(options)

    with virtual_clock():
        for _ in range(2):
            dhagas: list[dhaga.Dhaga] = [
                dhaga.spawn(returns, ParksAtItsEnd()),
                dhaga.spawn(returns, ParksAtItsEnd(), 0),
                dhaga.spawn(returns, a=ParksAtItsEnd(), b=0, c=0),
                dhaga.spawn(keeps_in_thread_local),
            ]
            assert [each.result() for each in dhagas] == [1, 2, 3, "local"]
            dhaga.sleep(5)
            assert [each.result() for each in dhagas] == [1, 2, 3, "local"]
        gc.collect()


def test_a_finalizer_of_an_argument_may_park_and_the_error_stays() -> None:
    lost = LookupError("lost")
    with virtual_clock():
        d = dhaga.spawn(lambda _: fail(lost), ParksAtItsEnd())
        assert error_of(d.result) is lost
        lost.with_traceback(None)
        dhaga.sleep(5)
        assert error_of(d.result) is lost
        gc.collect()
