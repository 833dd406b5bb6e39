"""Sleep: in order of the deadlines, and without a trace once it is over."""

from __future__ import annotations

import pytest

import dhaga
from dhaga.testing import settle, virtual_clock


def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    trace = []

    def sleeper(seconds: float) -> None:
        dhaga.sleep(seconds)
        trace.append((seconds, clock()))

    with virtual_clock() as clock:
        for d in [dhaga.spawn(sleeper, seconds) for seconds in (300, 100, 200, 0.5, 0.25)]:
            d.join()
    assert trace == [(0.25, 0.25), (0.5, 0.5), (100, 100), (200, 200), (300, 300)]


def test_a_sleeper_that_is_woken_or_cancelled_leaves_no_timer() -> None:
    with virtual_clock() as clock:
        woken, cancelled = dhaga.spawn(dhaga.sleep, 100), dhaga.spawn(dhaga.sleep, 100)
        settle()
        assert woken.wake() and cancelled.cancel()
        woken.join()
        cancelled.join()
        assert clock() == 0 and not len(dhaga.current().scheduler.timers)


def test_sleep_says_what_is_no_number() -> None:
    for call in (lambda: dhaga.sleep("1"), lambda: dhaga.spawn(dhaga.sleep, [1]).result()):
        with virtual_clock(), pytest.raises(TypeError, match="sleep takes seconds, a number, and not"):
            call()


def test_sleep_refuses_negative_seconds_anywhere() -> None:
    with virtual_clock():
        for sleep in (dhaga.sleep, lambda seconds: dhaga.spawn(dhaga.sleep, seconds).result()):
            with pytest.raises(ValueError, match="negative"):
                sleep(-1)
    with pytest.raises(ValueError, match="negative"):
        dhaga.sleep(-1)
