"""gevent's Group and Pool."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent.pool import Group, Pool, PoolFull

pytestmark = pytest.mark.usefixtures("clock")


def nap(seconds: float) -> float:
    gevent.sleep(seconds)
    return seconds


def test_a_pool_has_room_for_so_many() -> None:
    pool = Pool(2)
    first = [pool.spawn(nap, 1), pool.spawn(nap, 2)]
    assert pool.full() and pool.free_count() == 0 and len(pool) == 2 and first[0] in pool
    third = pool.spawn(nap, 1)
    assert first[0].ready() and not first[1].ready()
    with pytest.raises(PoolFull):
        pool.start(gevent.Greenlet(nap, 1), blocking=False)
    with pytest.raises(PoolFull):
        pool.add(gevent.Greenlet(nap, 1), timeout=0.5)
    assert pool.wait_available() >= 1
    assert pool.join() and third.value == 1 and len(pool) == 0 and pool.free_count() == 2


def test_map_and_its_kin_keep_their_order() -> None:
    pool = Pool(2)
    seconds = [3, 1, 2]
    assert pool.map(nap, seconds) == seconds
    assert list(pool.imap(nap, seconds)) == seconds
    assert sorted(pool.imap_unordered(nap, seconds)) == [1, 2, 3]
    assert list(Group().imap_unordered(nap, seconds)) == [1, 2, 3]
    assert pool.map_async(nap, seconds).get() == seconds
    assert list(pool.imap(divmod, [7, 9], [2, 4])) == [(3, 1), (2, 1)]


def test_a_member_that_kills_its_group_ends_with_all_others() -> None:
    group, ended = Group(), []

    def work(number: int) -> None:
        try:
            if number == 2:
                group.kill(block=True)
            gevent.sleep(100)
        except gevent.GreenletExit:
            ended.append(number)
            raise

    for number in range(5):
        group.spawn(work, number)
    assert group.join(timeout=10) and len(group) == 0
    assert {0, 1, 2} <= set(ended)  # the others may not have begun


def test_imap_calls_ahead_by_maxsize_at_most() -> None:
    called: list[int] = []
    results = Group().imap_unordered(called.append, range(5), maxsize=2)
    gevent.sleep(1)
    assert called == [0, 1]
    next(results)
    gevent.sleep(1)
    assert called == [0, 1, 2]
    assert len(list(results)) == 4


def test_the_error_of_a_call_and_of_the_items_comes_in_its_place() -> None:
    def items() -> Any:
        yield 1
        raise KeyError("items")

    results = Group().imap(nap, items())
    assert next(results) == 1
    with pytest.raises(KeyError):
        next(results)
    with pytest.raises(ZeroDivisionError):
        list(Group().imap(lambda each: nap(1) / each, [0]))


def test_apply_and_its_callbacks() -> None:
    pool = Pool(1)
    seen: list[float] = []
    assert pool.apply(nap, (1,)) == 1
    pool.spawn(nap, 1)
    pool.apply_async(nap, (2,), callback=seen.append).join()
    pool.apply_cb(nap, (3,), callback=seen.append)
    gevent.sleep(1)
    assert seen == [2, 3]
    assert pool.apply(pool.apply, (nap, (1,))) == 1


def test_a_kill_ends_all_and_a_group_goes_on() -> None:
    pool = Pool(3)
    victims = [pool.spawn(nap, 100) for _ in range(3)]
    gevent.sleep(1)
    pool.killone(victims[0])
    assert victims[0].ready() and len(pool) == 2
    pool.kill()
    assert all(each.ready() for each in victims) and len(pool) == 0 and pool.free_count() == 3
    assert pool.apply(nap, (1,)) == 1


def test_join_takes_a_timeout_and_raises_errors_if_asked() -> None:
    group = Group()
    slow = group.spawn(nap, 5)
    assert group.join(timeout=1) is False
    group.discard(slow)
    assert group.join() is True
    bad = group.spawn(lambda: nap(1) / 0)

    def watch() -> None:
        with pytest.raises(ZeroDivisionError):
            bad.get()

    watching = gevent.spawn(watch)
    with pytest.raises(ZeroDivisionError):
        group.join(raise_error=True)
    gevent.joinall([slow, watching])


def test_a_group_is_made_of_greenlets_and_false_when_it_is_empty() -> None:
    group = Group([gevent.spawn(gevent.sleep, seconds) for seconds in (1, 2)])
    assert len(group) == 2 and group
    group.join()
    assert not group


def test_a_timeout_in_imap_loses_no_result() -> None:
    results: Any = Pool(2).imap(nap, [3, 1, 2], maxsize=2)
    with gevent.Timeout(1, False):
        next(results)
    assert list(results) == [3, 1, 2]
