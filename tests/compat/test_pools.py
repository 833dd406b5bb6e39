"""``eventlet.pools``: things that are lent."""

from __future__ import annotations

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet import pools
from dhaga.testing import virtual_clock


def test_a_pool_lends_what_it_makes_on_demand() -> None:
    with virtual_clock():
        made: list[int] = []
        pool = pools.Pool(max_size=2, create=lambda: made.append(len(made)) or len(made))  # type: ignore[func-returns-value]
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
