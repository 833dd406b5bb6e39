"""gevent's Event and AsyncResult."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent.event import AsyncResult, Event

pytestmark = pytest.mark.usefixtures("clock")


def test_an_event_wakes_all_and_may_be_cleared() -> None:
    event = Event()
    waiting = [gevent.spawn(event.wait, seconds) for seconds in (1, 9, None)]
    gevent.sleep(2)
    event.set()
    gevent.joinall(waiting)
    assert [each.value for each in waiting] == [False, True, True]
    assert event.is_set() and event.ready()
    event.clear()
    assert not event.wait(timeout=0)


def test_a_result_comes_once_for_all() -> None:
    result = AsyncResult()
    waiting = [gevent.spawn(result.get), gevent.spawn(result.wait)]
    with pytest.raises(gevent.Timeout):
        result.get(timeout=1)
    with pytest.raises(gevent.Timeout):
        result.get_nowait()
    assert (result.ready(), result.successful(), result.wait(1)) == (False, False, None)
    result.set(7)
    gevent.joinall(waiting)
    assert [each.value for each in waiting] == [7, 7]
    assert (result.value, result.successful(), result.exception) == (7, True, None)


def test_an_error_is_raised_by_get_alone() -> None:
    result = AsyncResult()
    result.set_exception(KeyError("k"))
    assert result.wait() is None and not result.successful() and result.ready()
    with pytest.raises(KeyError):
        result.get()
    assert result.exc_info[0] is KeyError


def test_a_result_may_be_linked_to_a_greenlet() -> None:
    def fail() -> Any:
        raise ValueError("wrong")

    good, bad = AsyncResult(), AsyncResult()
    gevent.spawn(int).link(good)
    failing = gevent.spawn(fail)
    failing.link(bad)
    with pytest.raises(ValueError, match="wrong"):
        failing.get()
    assert good.get() == 0
    with pytest.raises(ValueError, match="wrong"):
        bad.get()


def test_the_only_argument_of_result_is_the_timeout() -> None:
    with pytest.raises(gevent.Timeout, match="5 seconds"):
        AsyncResult().result(5)
