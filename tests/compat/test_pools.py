"""``eventlet.pools``: things that are lent."""

from __future__ import annotations

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import pools
from dhaga.testing import virtual_clock


def test_a_pool_lends_what_it_makes_on_demand() -> None:
    with virtual_clock():
        made: list[int] = []
        pool = pools.Pool(max_size=2, create=lambda: made.append(len(made)) or len(made))
        with pool.item() as one, pool.item() as two:
            assert (one, two, pool.free()) == (1, 2, 0)
            waiter = eventlet.spawn(pool.get)
            eventlet.sleep(0)
            assert pool.waiting() == 1
        assert waiter.wait() == 2 and pool.free() == 1
        pool.resize(1)
        pool.put(2)
        assert pool.free() == 0 or pool.current_size == 1
        assert isinstance(pools.TokenPool(min_size=1).get(), pools.Token)
        with pytest.raises(NotImplementedError):
            pools.Pool(min_size=1)


def test_an_item_that_is_put_back_is_not_lost_if_an_error_is_pending() -> None:
    pool = pools.TokenPool(max_size=1)

    def work() -> None:
        with pool.item():
            eventlet.sleep(1)

    with virtual_clock():
        worker = eventlet.spawn(work)
        eventlet.sleep(0)
        waiter = eventlet.spawn(pool.get)
        eventlet.sleep(0)
        # The worker is woken, and gets the error before it runs.
        eventlet.hubs.get_hub().schedule_call_global(1, worker.throw)
        with eventlet.Timeout(9):
            assert isinstance(waiter.wait(), pools.Token)
        assert (worker.dead, pool.waiting()) == (True, 0)


def test_a_waiter_creates_an_object_if_another_could_not() -> None:
    began: list[float] = []

    def create() -> float:
        began.append(clock())
        eventlet.sleep(1)
        if len(began) < 3:
            raise OSError("no server")
        return began[-1]

    with virtual_clock() as clock, eventlet.Timeout(9):
        pool = pools.Pool(max_size=1, create=create)
        first, second, third = (eventlet.spawn(pool.get) for _ in range(3))
        for each in first, second:
            with pytest.raises(OSError, match="no server"):
                each.wait()
        assert third.wait() == 2 and began == [0, 1, 2]
        assert (pool.current_size, pool.free(), pool.waiting()) == (1, 0, 0)
