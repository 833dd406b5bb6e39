"""gevent's Timeout."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent import Timeout
from dhaga.compat.gevent.event import AsyncResult, Event
from dhaga.compat.gevent.lock import Semaphore
from dhaga.compat.gevent.pool import Pool
from dhaga.compat.gevent.queue import Channel, Queue

pytestmark = pytest.mark.usefixtures("clock")


def test_it_raises_itself_or_another_error_or_ends_the_block() -> None:
    with pytest.raises(Timeout) as caught, Timeout(1) as timeout:
        gevent.sleep(2)
    assert caught.value is timeout and str(timeout) == "1 second"
    with pytest.raises(KeyError), Timeout(1, KeyError):
        gevent.sleep(2)
    with pytest.raises(KeyError, match="mine"), Timeout(1, KeyError("mine")):
        gevent.sleep(2)
    with Timeout(1, False):
        gevent.sleep(2)
    with pytest.raises(Timeout, match=r"0\.5 seconds: hint"), Timeout(0.5, "hint"):
        gevent.sleep(2)


class NeedsText(Exception):
    def __init__(self, text: str) -> None: ...


def test_an_error_that_cannot_be_made_is_a_type_error_in_the_waiter() -> None:
    with pytest.raises(TypeError, match="text"), Timeout(1, NeedsText):
        gevent.sleep(2)
    gevent.sleep(1)


def test_none_never_expires_and_an_end_before_it_is_the_end() -> None:
    with Timeout(None) as never:
        gevent.sleep(100)
        assert not never.pending
    with Timeout(1) as timeout:
        assert timeout.pending
    assert not timeout.pending
    gevent.sleep(2)


@pytest.mark.parametrize(("outer", "inner"), [(1, 2), (2, 1)])
def test_of_two_the_earlier_one_is_raised(outer: int, inner: int) -> None:
    first = Timeout.start_new(outer)
    second = Timeout.start_new(inner)
    with pytest.raises(Timeout) as caught:
        gevent.sleep(5)
    assert caught.value is (first if outer < inner else second)
    first.close()
    second.close()
    gevent.sleep(5)


def test_it_may_be_started_again() -> None:
    timeout = Timeout(1)
    for _ in range(2):
        timeout.start()
        with pytest.raises(AssertionError):
            timeout.start()
        with pytest.raises(Timeout):
            gevent.sleep(2)
    assert Timeout.start_new(timeout) is timeout
    timeout.cancel()


def test_what_takes_seconds_takes_a_timeout_as_well() -> None:
    timeout = Timeout(1)
    forever = gevent.spawn(gevent.sleep, 100)
    for wait in (AsyncResult().get, Queue().get, Channel().get, forever.get):
        with pytest.raises(Timeout) as caught:
            wait(timeout=timeout)
        assert caught.value is timeout and not timeout.pending
    forever.kill()
    full: Queue[int] = Queue(1, [1])
    for put in (full.put, Channel().put):
        with pytest.raises(Timeout):
            put(1, timeout=timeout)


def test_waits_that_return_false_at_their_end_take_a_timeout_as_well() -> None:
    pool = Pool(1)
    sleeper = pool.spawn(gevent.sleep, 9)
    assert not Event().wait(Timeout(1))
    assert AsyncResult().wait(Timeout(1)) is None
    assert not Semaphore(0).acquire(timeout=Timeout(1))
    assert not pool.join(Timeout(1))
    sleeper.join(Timeout(1))
    assert not sleeper.dead
    sleeper.kill()
    with pytest.raises(Timeout, match="1 second"), Timeout(1):
        Event().wait(Timeout(2))
    set_event = Event()
    set_event.set()
    assert set_event.wait(Timeout(1)) and Semaphore(1).acquire(timeout=Timeout(1))


def test_timeouts_are_compared_by_their_seconds() -> None:
    assert Timeout(0.5) < 1 and Timeout(1) < Timeout(2)
    assert not Timeout(2) < 1 and not Timeout(2) < Timeout(1)


def test_a_negative_timeout_expires_at_once(clock: Any) -> None:
    begin = clock.now
    with pytest.raises(Timeout), Timeout(-1):
        gevent.sleep(2)
    assert gevent.wait([Event()], timeout=-1) == list(gevent.iwait([Event()], timeout=-1)) == []
    sleeper = gevent.spawn(gevent.sleep, 9)
    assert gevent.joinall([sleeper], timeout=-1) == []
    assert not Queue(items=[1]).join(timeout=-1)
    sleeper.kill()
    assert clock.now == begin


def test_with_timeout_returns_a_value_in_its_place() -> None:
    assert gevent.with_timeout(1, gevent.sleep, 5, timeout_value="late") == "late"
    assert gevent.with_timeout(5, int, "7") == 7
    with pytest.raises(Timeout):
        gevent.with_timeout(1, gevent.sleep, 5)
