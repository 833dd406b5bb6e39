"""iwait and wait over whatever may be linked to."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent.event import AsyncResult, Event

pytestmark = pytest.mark.usefixtures("clock")


def test_iwait_yields_as_they_become_ready_and_each_once() -> None:
    slow, quick = gevent.spawn(gevent.sleep, 2), gevent.spawn(gevent.sleep, 1)
    event = Event()
    event.set()
    assert list(gevent.iwait([slow, quick, event, quick])) == [event, quick, slow]


def test_in_a_with_block_iwait_lets_go_of_the_rest() -> None:
    event, other = Event(), Event()
    event.set()
    with gevent.iwait([other, event]) as ready:
        assert next(ready) is event and len(other._links) == 1
    assert other._links == []


def test_wait_ends_after_count_or_timeout() -> None:
    events: list[Any] = [Event(), Event(), AsyncResult()]
    assert gevent.wait(events, timeout=1) == []
    gevent.spawn_later(1, events[1].set)
    assert gevent.wait(events, count=1) == [events[1]]
    assert events[0]._links == []


def test_without_objects_wait_is_for_all_greenlets() -> None:
    spawned = [gevent.spawn(gevent.sleep, 3), gevent.spawn_later(5, gevent.sleep, 1)]
    assert gevent.wait(timeout=1) is False
    assert gevent.wait() is True
    assert all(each.ready() for each in spawned)


def test_a_callback_that_fails_is_logged_and_the_next_is_called(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[object] = []
    event = Event()
    event.rawlink(lambda _: 1 / 0)
    event.rawlink(seen.append)
    event.set()
    gevent.sleep(0.1)
    assert seen == [event]
    assert "ZeroDivisionError" in caplog.text
    caplog.clear()
