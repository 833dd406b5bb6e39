"""Semaphores of eventlet, and their count as gevent's have it: permits, balance, hand-over in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.semaphore import BoundedSemaphore, CappedSemaphore, Semaphore
from dhaga.compat.gevent import lock
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


def test_permits_go_to_those_that_wait_in_order() -> None:
    semaphore = Semaphore()
    order: list[int] = []

    def worker(number: int) -> None:
        with semaphore:
            order.append(number)
            eventlet.sleep(1)

    workers = [eventlet.spawn(worker, number) for number in range(4)]
    eventlet.sleep(0)
    assert (semaphore.counter, semaphore.balance, semaphore.locked(), semaphore.bounded()) == (0, -3, True, False)
    workers[1].kill()
    for each in (workers[0], *workers[2:]):
        each.wait()
    assert order == [0, 2, 3] and semaphore.balance == 1


@pytest.mark.parametrize("kind", [Semaphore, lock.Semaphore])
def test_below_0_permits_come_back_before_one_is_handed_over(kind: Any) -> None:
    semaphore = kind(1)
    semaphore.acquire()
    semaphore.counter = -1
    waiter = eventlet.spawn(semaphore.acquire)
    eventlet.sleep(0)
    counters = []
    for _ in range(3):
        semaphore.release()
        eventlet.sleep(0)
        counters.append((semaphore.counter, waiter.dead))
    assert counters == [(0, False), (0, True), (1, True)]
    semaphore.counter = 0
    assert semaphore.locked()


def test_a_wait_for_a_permit_has_an_end() -> None:
    semaphore = Semaphore(0)
    assert not semaphore.acquire(timeout=1) and not semaphore.acquire(blocking=False) and semaphore.balance == 0
    for wrong in ({"timeout": -2.0}, {"blocking": False, "timeout": 1.0}):
        with pytest.raises(ValueError, match="timeout"):
            semaphore.acquire(**wrong)
    with eventlet.Timeout(0, False):
        eventlet.sleep(0)
    with pytest.raises(eventlet.Timeout), eventlet.Timeout(1):
        semaphore.acquire()
    semaphore.release()
    assert semaphore.acquire(timeout=-1)


def test_an_error_that_is_pending_leaves_no_one_in_line() -> None:
    semaphore = Semaphore(0)
    timeout = eventlet.Timeout(1)
    timeout._expire()
    with pytest.raises(eventlet.Timeout):
        semaphore.acquire()
    timeout.cancel()
    assert semaphore.balance == 0


def test_bad_values_are_refused() -> None:
    for make in (lambda: Semaphore(-1), lambda: CappedSemaphore(-1, 2), lambda: CappedSemaphore(3, 2)):
        with pytest.raises(ValueError, match=r"value|count|positive"):
            make()
    with pytest.raises(TypeError, match="int"):
        Semaphore("many")


def test_one_release_too_many() -> None:
    bounded = BoundedSemaphore(1)
    with bounded:
        pass
    with pytest.raises(ValueError, match="too many"):
        bounded.release()


def test_a_capped_semaphore_waits_at_both_ends() -> None:
    capped = CappedSemaphore(1, 1)
    assert not capped.locked() and capped.bounded() and not capped.release(blocking=False)
    releaser = eventlet.spawn(capped.release)
    eventlet.sleep(0)
    assert not releaser.dead
    assert capped.acquire() and releaser.wait() and capped.balance == 1
    assert capped.acquire() and not capped.acquire(blocking=False)
    with pytest.raises(eventlet.Timeout), eventlet.Timeout(1):
        capped.acquire()
    assert capped.locked() and capped.balance == -1
