"""Pools of connections to databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import tpool
from dhaga.compat.eventlet.db_pool import (
    ConnectTimeout,
    DatabaseConnector,
    RawConnectionPool,
    TpooledConnectionPool,
)
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    yield
    tpool.killall()


class Connection:
    """Notes what is done to it."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.calls: list[str] = []

    def rollback(self) -> None:
        self.calls.append("rollback")

    def close(self) -> None:
        self.calls.append("close")


MODULE = SimpleNamespace(connect=Connection)


def test_a_connection_is_lent_again_after_a_rollback() -> None:
    pool = RawConnectionPool(MODULE, max_size=1, user="me")
    lent = pool.get()
    base: Any = lent._base
    assert lent and lent.options == {"user": "me"} and pool.free() == 0
    lent.close()
    lent.close()
    assert not lent and base.calls == ["rollback"] and pool.free() == 1
    with pytest.raises(AttributeError, match="given back"):
        lent.calls
    with pool.item() as again:
        assert again._base is base
    pool.clear()
    assert base.calls == ["rollback", "rollback", "close"] and pool.current_size == 0


def test_the_next_waits_until_one_is_given_back() -> None:
    pool = RawConnectionPool(MODULE, max_size=1)
    first = pool.get()
    waiter = eventlet.spawn(pool.get)
    eventlet.sleep(0)
    assert pool.waiting() == 1
    base = first._base
    pool.put(first)
    assert waiter.wait()._base is base
    pool.put(waiter.wait())
    pool.clear()


@pytest.mark.logs
def test_one_that_fails_at_its_cleanup_is_replaced() -> None:
    def fail(connection: Any) -> None:
        raise OSError("the server has gone")

    pool = RawConnectionPool(MODULE, max_size=1, cleanup=fail)
    first = pool.get()
    base = first._base
    waiter = eventlet.spawn(pool.get)
    eventlet.sleep(0)
    pool.put(first)
    assert waiter.wait()._base is not base and pool.current_size == 1
    pool.put(waiter.wait(), cleanup=None)
    assert len(pool.free_items) == 1
    pool.clear()


@pytest.mark.logs
def test_the_next_connects_if_the_first_that_waited_could_not() -> None:
    errors: list[BaseException | None] = [None, OSError("no server"), None]

    def connect() -> Connection:
        error = errors.pop(0)
        if error is not None:
            raise error
        return Connection()

    with virtual_clock(), eventlet.Timeout(9):
        pool = RawConnectionPool(SimpleNamespace(connect=connect), max_size=1, cleanup=lambda _: 1 // 0)
        lent = pool.get()
        first, second = eventlet.spawn(pool.get), eventlet.spawn(pool.get)
        eventlet.sleep(0)
        lent.close()  # its cleanup fails: the first waiter gets the place
        with pytest.raises(OSError, match="no server"):
            first.wait()
        assert second.wait() and pool.current_size == 1


def test_connections_end_by_their_age_or_while_they_are_idle() -> None:
    with virtual_clock() as clock:
        for options, seconds in [({"max_idle": 2}, 2), ({"max_age": 3}, 3)]:
            pool = RawConnectionPool(MODULE, **options)
            began = clock()
            connection = pool.get()
            base: Any = connection._base
            pool.put(connection)
            eventlet.sleep(seconds - 0.5)
            assert base.calls == ["rollback"]
            while base.calls == ["rollback"]:
                eventlet.sleep(0.1)
            assert seconds <= clock() - began < seconds + 0.2
            assert pool.current_size == 0 and not pool.free_items
    for options in ({"max_age": 0}, {"max_idle": 0}):
        pool = RawConnectionPool(MODULE, **options)
        connection = pool.get()
        base = connection._base
        pool.put(connection)
        assert base.calls == ["close"] and pool.current_size == 0


def test_connecting_has_its_time() -> None:
    slow = SimpleNamespace(connect=lambda: eventlet.sleep(30))
    pool = RawConnectionPool(slow, connect_timeout=0.01)
    with pytest.raises(ConnectTimeout):
        pool.get()
    assert pool.current_size == 0


def test_connections_work_in_os_threads() -> None:
    pool = TpooledConnectionPool(sqlite3, 0, 1, 10, 30, 5, None, ":memory:", check_same_thread=False)
    with pool.item() as connection:
        cursor = connection.cursor()
        assert isinstance(cursor, tpool.Proxy)
        cursor.execute("select 6 * 7")
        assert cursor.fetchone() == (42,)
    pool.clear()


def test_a_connector_has_a_pool_for_each_database() -> None:
    connector = DatabaseConnector(MODULE, {"one": {"user": "me"}, "default": {"user": "all"}}, RawConnectionPool, 0, 2)
    pool = connector.get("one", "shop")
    assert connector.get("one", "shop") is pool is not connector.get("two", "shop")
    connection = pool.get()
    assert connection.options == {"host": "one", "db": "shop", "user": "me"} and pool.max_size == 2
    pool.put(connection)
    pool.clear()
    assert connector.credentials_for("elsewhere") == {"user": "all"}


def test_what_makes_no_connections_is_refused() -> None:
    with pytest.raises(TypeError, match="DB-API"):
        RawConnectionPool(object())
