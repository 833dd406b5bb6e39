"""gevent's semaphores and RLock."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga import threading
from dhaga.compat import gevent
from dhaga.compat.gevent.lock import BoundedSemaphore, DummySemaphore, RLock, Semaphore

pytestmark = pytest.mark.usefixtures("clock")


def test_a_semaphore_counts_its_permits() -> None:
    semaphore = Semaphore(2)
    assert semaphore.acquire() and semaphore.acquire() and semaphore.locked()
    assert not semaphore.acquire(blocking=False) and not semaphore.acquire(timeout=1)
    gevent.spawn_later(1, semaphore.release)
    assert semaphore.wait() == 1
    with semaphore:
        assert semaphore.counter == 0
    assert semaphore.release() == 2
    with pytest.raises(ValueError, match=">= 0"):
        Semaphore(-1)


@pytest.mark.parametrize("kind", [Semaphore, BoundedSemaphore])
def test_a_wait_for_a_permit_takes_none(kind: Any) -> None:
    semaphore = kind(1)
    semaphore.acquire()
    waiting = [gevent.spawn(semaphore.wait) for _ in range(2)]
    gevent.sleep(0)
    semaphore.release()
    assert semaphore.acquire(blocking=False) and semaphore.locked()
    gevent.sleep(0)
    semaphore.release()
    assert [each.get() for each in waiting] == [1, 1] and not semaphore.locked()


def test_a_wait_for_a_permit_has_its_turn_among_those_that_acquire_one() -> None:
    semaphore = Semaphore(0)
    order: list[object] = []
    calls = [semaphore.wait, semaphore.acquire, semaphore.wait, semaphore.acquire]
    waiting = [gevent.spawn(lambda number, call: order.append((number, call())), *each) for each in enumerate(calls)]
    gevent.sleep(0)
    semaphore.release()
    gevent.sleep(1)
    assert order == [(0, 1), (1, True)] and semaphore.counter == 0
    waiting[2].kill()
    semaphore.release()
    gevent.joinall(waiting)
    assert order[2:] == [(3, True)] and semaphore.counter == 0


def test_a_wait_for_a_permit_may_have_a_timeout() -> None:
    semaphore = Semaphore(0)
    for _ in range(100):
        assert (semaphore.wait(1), semaphore.wait(0), semaphore.wait(gevent.Timeout(1))) == (0, 0, 0)
    assert len(semaphore._permits._waiters_) < 50
    with pytest.raises(KeyError):
        semaphore.wait(gevent.Timeout(1, KeyError))
    gevent.spawn_later(1, semaphore.release)
    assert semaphore.wait(gevent.Timeout(2)) == 1 == semaphore.counter


def test_a_link_is_called_when_a_permit_is_free() -> None:
    semaphore = Semaphore(0)
    seen: list[object] = []
    semaphore.rawlink(seen.append)
    gevent.sleep(1)
    assert seen == []
    semaphore.release()
    gevent.sleep(1)
    assert seen == [semaphore]


def test_a_bounded_one_takes_no_permit_too_many_and_a_dummy_any() -> None:
    bounded = BoundedSemaphore(1)
    with pytest.raises(ValueError):
        bounded.release()
    with DummySemaphore() as nothing:
        assert nothing is None and DummySemaphore().acquire() and not DummySemaphore().locked()


def test_a_lock_is_its_holders() -> None:
    lock = RLock()
    with lock, lock:
        other = gevent.spawn(lock.acquire, False)
        assert other.get() is False
        assert gevent.spawn(lock.acquire, True, 1).get() is False
        assert gevent.spawn(lock.acquire, timeout=gevent.Timeout(1)).get() is False
    with pytest.raises(RuntimeError):
        lock.release()


def test_the_counter_may_be_set_and_a_debt_is_paid_first() -> None:
    semaphore = Semaphore(3)
    semaphore.acquire()
    semaphore.counter = 1
    assert (semaphore.counter, semaphore.acquire(blocking=False), semaphore.locked()) == (1, True, True)
    semaphore.counter -= 1
    assert semaphore.counter == -1
    assert (semaphore.release(), semaphore.acquire(blocking=False)) == (0, False)
    assert (semaphore.release(), semaphore.acquire(blocking=False)) == (1, True)
    semaphore.counter = -2
    semaphore.counter += 3
    assert semaphore.counter == 1


def test_a_counter_that_is_raised_wakes_those_that_wait() -> None:
    semaphore = Semaphore(0)
    waiting = gevent.spawn(semaphore.acquire)
    gevent.sleep(0)
    semaphore.counter = 1
    assert waiting.get() is True
    assert semaphore.counter == 0


def test_an_rlock_may_be_the_lock_of_a_condition() -> None:
    condition = threading.Condition(RLock())
    with condition, condition:
        waiting = gevent.spawn(notify, condition)
        assert condition.wait(timeout=5)
        waiting.join(timeout=1)
    assert waiting.successful()


def notify(condition: Any) -> None:
    with condition:
        condition.notify()
