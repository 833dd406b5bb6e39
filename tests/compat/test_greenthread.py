"""Greenthreads: start, result, links, kill."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from greenlet import GreenletExit

from dhaga.compat import eventlet
from dhaga.compat.eventlet import greenthread
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


def test_wait_returns_the_result_or_raises_the_error() -> None:
    assert eventlet.spawn(divmod, 7, 2).wait() == (3, 1)
    failed = eventlet.spawn(int, "x")
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            failed.wait()
    assert failed.dead


def test_a_start_in_some_seconds_may_be_cancelled_until_then(clock: Any) -> None:
    started: list[float] = []
    later = eventlet.spawn_after(5, lambda: started.append(clock()))
    never = eventlet.spawn_after(5, started.append, 0)
    assert never.cancel() and never.dead
    with pytest.raises(GreenletExit):
        never.wait()
    later.wait()
    assert started == [5] and not later.cancel()


def test_a_local_start_does_not_happen_after_the_end_of_its_spawner() -> None:
    calls: list[str] = []

    def spawner(life: float) -> eventlet.GreenThread:
        child = eventlet.spawn_after_local(2, calls.append, f"of {life}")
        eventlet.sleep(life)
        return child

    short, long = eventlet.spawn(spawner, 1), eventlet.spawn(spawner, 3)
    with pytest.raises(GreenletExit):
        short.wait().wait()
    long.wait().wait()
    assert calls == ["of 3"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), GreenletExit),
        ((KeyError("k"),), KeyError),
        ((KeyError,), KeyError),
        ((KeyError, KeyError("k"), None), KeyError),
    ],
)
def test_kill_raises_in_the_victim_before_it_returns(args: tuple[Any, ...], expected: type[BaseException]) -> None:
    seen: list[type[BaseException]] = []

    def victim() -> None:
        try:
            eventlet.sleep(100)
        except BaseException as error:
            seen.append(type(error))
            raise

    one = eventlet.spawn(victim)
    one.link(lambda gone: None)
    eventlet.sleep(0)
    if expected is KeyError:
        waiter = eventlet.spawn(one.wait)
        eventlet.sleep(0)
    eventlet.kill(one, *args)
    assert seen == [expected] and one.dead
    with pytest.raises(expected):
        one.wait()
    if expected is KeyError:
        with pytest.raises(KeyError):
            waiter.wait()
    one.kill()  # no-op


def test_one_that_is_killed_before_its_start_never_runs() -> None:
    calls: list[int] = []
    one = eventlet.spawn(calls.append, 1)
    raw = eventlet.spawn_n(calls.append, 2)
    one.kill()
    assert calls == [2] and raw.dead
    raw = eventlet.spawn_n(calls.append, 3)
    greenthread.cancel(raw)
    greenthread.cancel(raw)
    assert calls == [2] and raw.dead


def test_one_may_kill_itself_and_the_main_code() -> None:
    def suicide() -> None:
        eventlet.kill(eventlet.getcurrent())

    with pytest.raises(GreenletExit):
        eventlet.spawn(suicide).wait()
    main = eventlet.getcurrent()
    eventlet.spawn(eventlet.kill, main, KeyError("for main"))
    with pytest.raises(KeyError, match="for main"):
        eventlet.sleep(5)
    eventlet.sleep(0)
    with pytest.raises(TypeError, match="neither one of Dhaga's"):
        eventlet.kill(object())


def test_links_are_called_at_the_end_before_the_waiters_and_at_once_after_it() -> None:
    calls: list[Any] = []
    one = eventlet.spawn(eventlet.with_timeout, 1, eventlet.sleep, 100, timeout_value="late")
    waiter = eventlet.spawn(lambda: calls.append(("waiter", one.wait())))

    def link(gone: Any, word: str, more: int = 0) -> None:
        eventlet.sleep(3)
        calls.append((word, more, gone.wait(), eventlet.getcurrent() is gone))

    one.link(link, "linked", more=1)
    one.link(link, "not called")
    assert one.unlink(link, "not called") and not one.unlink(link, "not called")
    waiter.wait()
    assert calls == [("linked", 1, "late", True), ("waiter", "late")]
    one.link(lambda gone: calls.append(gone.wait()))
    assert calls[-1] == "late"


@pytest.mark.logs
def test_a_link_sees_the_error_and_one_that_fails_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[BaseException] = []

    def look(gone: Any) -> None:
        with pytest.raises(ZeroDivisionError) as caught:
            gone.wait()
        seen.append(caught.value)

    one = eventlet.spawn(divmod, 1, 0)
    one.link(lambda gone: [].pop())
    one.link(look)
    with pytest.raises(ZeroDivisionError):
        one.wait()
    assert len(seen) == 1 and "a link of" in caplog.text


def test_the_error_that_a_link_sees_has_its_traceback() -> None:
    seen: list[str] = []

    def function_that_fails() -> None:
        raise KeyError("k")

    def look(gone: Any) -> None:
        try:
            gone.wait()
        except KeyError as error:
            seen.extend(frame.name for frame in traceback.extract_tb(error.__traceback__))

    one = eventlet.spawn(function_that_fails)
    one.link(look)
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            one.wait()
        assert caught.traceback[-1].name == "function_that_fails"
    assert seen[-1] == "function_that_fails"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_of_a_link_ends_the_main_code(error: type[BaseException]) -> None:
    def leave(_: Any) -> None:
        raise error(3)

    called: list[Any] = []
    one = eventlet.spawn(int)
    one.link(leave)
    one.link(called.append)
    with pytest.raises(error, match="3"):
        eventlet.sleep(9)
    assert (called, one.wait()) == ([one], 0)


@pytest.mark.logs
def test_an_error_that_is_not_waited_for_is_reported_unless_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    from dhaga.compat.eventlet import debug

    eventlet.spawn_n(int, "quiet?")
    eventlet.sleep(0)
    assert "quiet?" in caplog.text
    caplog.clear()
    debug.hub_exceptions(False)
    try:
        eventlet.spawn(int, "quiet!")
        eventlet.sleep(0)
    finally:
        debug.hub_exceptions(True)
    assert caplog.text == ""


def test_a_link_may_add_another_one() -> None:
    called: list[Any] = []
    greenthread = eventlet.spawn(int)
    greenthread.link(lambda g: g.link(called.append))
    greenthread.wait()
    assert called == [greenthread]


def test_throw_raises_where_it_waits_and_never_parks() -> None:
    ended: list[type[BaseException]] = []

    def work() -> None:
        try:
            eventlet.sleep(9)
        except BaseException as error:
            ended.append(type(error))

    victims = [eventlet.spawn_n(work), eventlet.spawn(work)]
    eventlet.sleep(0)
    victims[0].throw()
    victims[1].throw(KeyError("k"))
    assert ended == []
    eventlet.sleep(0)
    assert ended == [greenthread.GreenletExit, KeyError]


def test_a_sleep_of_0_raises_what_came_meanwhile() -> None:
    turns: list[int] = []

    def work() -> None:
        while True:
            turns.append(1)
            eventlet.sleep(0)

    victim = eventlet.spawn(work)
    eventlet.sleep(0)
    victim.kill()
    assert turns == [1] and victim.dead


def test_what_comes_later_may_be_called_off() -> None:
    done: list[Any] = []
    greenthread.call_after_global(1, done.append, "global")
    greenthread.call_after(1, done.append, "local")
    greenthread.call_after_local(1, done.append, "never").cancel()
    greenthread.exc_after(1, KeyError).cancel()
    eventlet.sleep(2)
    assert done == ["global", "local"]
    eventlet.exc_after(1, KeyError)
    with pytest.raises(KeyError):
        eventlet.sleep(2)


def test_a_start_in_0_seconds_is_no_timer() -> None:
    started: list[int] = []
    greenthread.spawn_after(0, started.append, 1)
    eventlet.sleep(0)
    assert started == [1]


def test_the_body_of_a_generator_function_does_not_run_as_with_eventlet() -> None:
    ran = []

    def items() -> Iterator[int]:
        ran.append(1)
        yield 1

    assert inspect.isgenerator(eventlet.spawn(items).wait())
    eventlet.spawn_n(items)
    eventlet.sleep(0)
    assert ran == []
