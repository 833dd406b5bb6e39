"""gevent's hub, as far as programs use it, and the functions beside it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent.event import Event
from dhaga.compat.gevent.exceptions import ConcurrentObjectUseError, LoopExit
from dhaga.compat.gevent.hub import Waiter


def test_there_is_one_hub_for_a_thread() -> None:
    assert gevent.get_hub() is gevent.get_hub()
    assert gevent.get_hub().loop is gevent.spawn(lambda: getattr(gevent.getcurrent(), "loop")).get()  # noqa: B009
    with pytest.raises(gevent.Timeout), gevent.Timeout(0.01):
        gevent.get_hub().switch()


def test_a_waiter_passes_a_value_or_an_error(clock: Any) -> None:
    waiter = Waiter()
    gevent.spawn(waiter.switch, 5)
    assert waiter.get() == 5 and waiter.get() == 5
    waiter.clear()
    gevent.spawn(waiter.throw, KeyError)
    with pytest.raises(KeyError):
        waiter.get()
    busy = Waiter()
    first = gevent.spawn(busy.get)
    gevent.sleep(0)
    with pytest.raises(ConcurrentObjectUseError):
        busy.get()
    busy.switch(1)
    assert first.get() == 1


def test_a_wait_that_cannot_end_is_a_loop_exit(clock: Any) -> None:
    with pytest.raises(LoopExit):
        Event().wait()


def test_idle_lets_all_others_run(clock: Any) -> None:
    seen: list[int] = []
    for number in range(3):
        gevent.spawn(seen.append, number)
    gevent.idle()
    assert seen == [0, 1, 2]


def test_a_signal_calls_its_handler_in_a_greenlet() -> None:
    seen = Event()
    watching = gevent.signal_handler(signal.SIGUSR1, seen.set)
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen.wait(20)
    finally:
        watching.cancel()
