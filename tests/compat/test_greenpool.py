"""GreenPool and GreenPile: room, order, bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import greenpool
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


def late(number: int) -> int:
    eventlet.sleep(10 - number)
    return number


def test_a_spawn_waits_for_room(clock: Any) -> None:
    pool = eventlet.GreenPool(2)
    first = [pool.spawn(eventlet.sleep, seconds) for seconds in (3, 5)]
    assert (pool.running(), pool.free(), pool.waiting()) == (2, 0, 0)
    pool.spawn_n(eventlet.sleep, 1)
    assert clock() == 3 and first[0].dead and not first[1].dead
    pool.waitall()
    assert clock() == 5 and pool.free() == 2 and pool.running() == 0
    pool.waitall()


def test_a_spawn_that_fails_takes_no_room() -> None:
    pool = eventlet.GreenPool(1)
    with pytest.raises(TypeError):
        pool.spawn(None)
    assert pool.free() == 1 and pool.spawn(int).wait() == 0
    pool.waitall()


@pytest.mark.logs
def test_one_of_a_full_pool_makes_its_calls_itself(caplog: pytest.LogCaptureFixture) -> None:
    pool = eventlet.GreenPool(1)

    def outer() -> list[Any]:
        me = eventlet.getcurrent()
        found = [pool.spawn(lambda: eventlet.getcurrent() is me).wait()]
        pool.spawn_n(found.append, "by hand")
        pool.spawn_n(int, "not a number")
        with pytest.raises(AssertionError, match="never terminate"):
            pool.waitall()
        return found

    assert pool.spawn(outer).wait() == [True, "by hand"] and "not a number" in caplog.text


def test_debug_of_the_module_switches_the_reports_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greenpool, "DEBUG", False)
    pool = eventlet.GreenPool(1)
    pool.spawn_n(int, "not a number")  # a log line would fail the test
    pool.waitall()


def test_an_error_or_a_kill_gives_the_room_back() -> None:
    pool = eventlet.GreenPool(1)
    with pytest.raises(ZeroDivisionError):
        pool.spawn(divmod, 1, 0).wait()
    sleeper = pool.spawn(eventlet.sleep, 100)
    waiter = eventlet.spawn(pool.spawn, eventlet.sleep, 0)
    eventlet.sleep(0)
    assert pool.waiting() == 1
    sleeper.kill()
    waiter.wait().wait()
    assert pool.free() == 1


def test_a_pool_grows_and_shrinks(clock: Any) -> None:
    pool = eventlet.GreenPool(1)
    pool.spawn(eventlet.sleep, 5)
    waiters = [eventlet.spawn(pool.spawn, eventlet.sleep, 5) for _ in range(2)]
    eventlet.sleep(0)
    pool.resize(3)
    assert [each.wait() is not None for each in waiters] == [True, True] and pool.running() == 3
    pool.resize(1)
    assert pool.free() == -2
    pool.waitall()
    assert clock() == 5 and pool.free() == 1


def test_imap_keeps_the_order_and_is_not_far_ahead() -> None:
    taken: list[int] = []
    endless = (taken.append(number) or number for number in itertools.count())
    results = eventlet.GreenPool(2).imap(late, itertools.islice(endless, 8))
    assert [next(results) for _ in range(2)] == [0, 1] and len(taken) <= 6
    assert list(results) == [2, 3, 4, 5, 6, 7] and list(results) == []
    assert list(eventlet.GreenPool().starmap(None, [(1, 2), (3, 4)])) == [(1, 2), (3, 4)]


def test_an_error_of_the_items_comes_out_of_imap() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    results = eventlet.GreenPool(2).imap(late, items())
    assert next(results) == 1
    with pytest.raises(OSError, match="no more"):
        next(results)
    assert list(results) == []


def test_a_pile_yields_in_the_order_of_its_spawns() -> None:
    pile = eventlet.GreenPile(eventlet.GreenPool(3))
    for number in range(5):
        pile.spawn(late, number)
    assert list(pile) == [0, 1, 2, 3, 4]
    pile.spawn(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        next(pile)
    with pytest.raises(StopIteration):
        pile.next()


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        eventlet.GreenPool("many")
    with pytest.raises(ValueError, match="0 or more"):
        eventlet.GreenPool(-1)
