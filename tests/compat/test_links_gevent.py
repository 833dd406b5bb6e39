"""iwait and wait over whatever may be linked to."""

from __future__ import annotations

import sys
from threading import get_ident
from typing import Any

import pytest

from dhaga._kernel import originals
from dhaga._kernel.wait import deadlock
from dhaga.compat import gevent
from dhaga.compat.gevent.event import AsyncResult, Event
from dhaga.compat.gevent.lock import Semaphore
from dhaga.compat.gevent.queue import Queue
from dhaga.testing import VirtualClock

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


def test_the_timeout_of_iwait_does_not_strike_between_two_objects() -> None:
    sleepers = [gevent.spawn(gevent.sleep, seconds) for seconds in (1, 2, 9)]
    seen = []
    for each in gevent.iwait(sleepers, timeout=3):
        gevent.sleep(5)
        seen.append(each)
    assert seen == sleepers[:2]
    ready = gevent.iwait(sleepers, timeout=1)
    assert next(ready) in sleepers
    gevent.sleep(2)


def test_a_wait_sees_an_event_that_is_cleared_right_after_it_was_set() -> None:
    event = Event()
    waiting = gevent.spawn(gevent.wait, [event])
    gevent.sleep(0)
    event.set()
    event.clear()
    waiting.join(timeout=1)
    assert waiting.value == [event]


def test_a_wait_for_all_ends_before_its_timeout_if_nothing_could_wake_the_rest(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlock, "all_begun", lambda: True)  # it looks at the process, not at the virtual clock
    stuck = gevent.spawn(Event().wait)
    later = gevent.spawn_later(2, abs, 1)
    began = clock.now
    assert gevent.wait(timeout=100) is True
    assert later.successful() and not stuck.dead and clock.now - began < 50
    stuck.kill()


@pytest.mark.parametrize("wake", ["timer", "greenlet"])
def test_a_wait_for_all_lasts_while_something_could_wake_the_rest(wake: str) -> None:
    event = Event()
    stuck = gevent.spawn(event.wait)
    if wake == "timer":
        gevent.get_hub().loop.timer(5).start(event.set)
    else:
        gevent.spawn_later(5, gevent.get_hub().loop.run_callback, event.set)
    assert gevent.wait(timeout=1) is False
    assert gevent.wait(timeout=100) is True and stuck.successful()


@pytest.mark.parametrize("source", [Event, AsyncResult, lambda: Semaphore(0)])
def test_another_os_thread_may_make_an_object_ready(source: Any) -> None:
    linked = source()
    seen: list[int] = []
    linked.rawlink(lambda _: seen.append(get_ident()))
    setter = originals.Thread(target=linked.release if isinstance(linked, Semaphore) else linked.set)
    setter.start()
    setter.join()
    gevent.sleep(0)
    assert seen == [get_ident()]


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


def test_a_wait_for_all_ends_once_nothing_could_wake_the_rest() -> None:
    items: Queue[int] = Queue(items=[1, 2])
    seen: list[int] = []

    def work() -> None:
        while True:
            seen.append(items.get())

    worker = gevent.spawn(work)
    assert gevent.wait() is gevent.get_hub().join() is True
    assert seen == [1, 2] and not worker.dead
    worker.kill()


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


@pytest.mark.parametrize("source", [Event, gevent.Greenlet])
def test_a_callback_may_fail_with_a_timeout(source: Any, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> None:
        raise gevent.Timeout(9)

    seen: list[object] = []
    linked = source()
    linked.rawlink(fail)
    linked.rawlink(seen.append)
    (linked.set if source is Event else linked.start)()
    gevent.sleep(0.1)
    assert seen == [linked]
    assert "Timeout" in caplog.text
    caplog.clear()


@pytest.mark.parametrize("source", [Event, gevent.Greenlet])
def test_a_callback_that_exits_ends_the_program(source: Any) -> None:
    linked = source()
    linked.rawlink(lambda _: sys.exit(3))
    (linked.set if source is Event else linked.start)()
    with pytest.raises(SystemExit):
        gevent.sleep(0.1)
