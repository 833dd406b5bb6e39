"""Cancels: in each state of a dhaga, from any thread, swallowed or pending."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest

import dhaga
from dhaga.testing import settle, virtual_clock


def test_cancel_before_the_start_keeps_the_function_from_being_called() -> None:
    called: list[int] = []
    with virtual_clock():
        d = dhaga.spawn(called.append, 1)
        assert d.state == "NEW" and d.cancel("not wanted")
        with pytest.raises(dhaga.Cancelled, match="not wanted") as info:
            d.result()
        assert info.value.reason == "not wanted" and not called and d.state == "DONE"


def test_cancel_of_one_that_waits_is_raised_there_and_says_why() -> None:
    trace: list[Any] = []

    def waits() -> None:
        try:
            dhaga.sleep(1000)
        except Exception:
            trace.append("an Exception would be swallowed")
        except dhaga.Cancelled as cancelled:
            trace.append(cancelled.reason)
            raise

    with virtual_clock() as clock:
        d = dhaga.spawn(waits)
        settle()
        assert d.cancel(("any", "object")) and d.cancel() and trace == []
        d.join()
        assert trace == [("any", "object")] and clock() == 0
        assert d.cancel() is False


def test_cancel_of_one_that_is_runnable_is_raised_at_its_next_park() -> None:
    with virtual_clock():

        def waits() -> Any:
            value = dhaga.park("x")
            with pytest.raises(dhaga.Cancelled):
                dhaga.park("y")
            return value

        d = dhaga.spawn(waits)
        settle()
        d.wake("first")
        d.cancel()
        assert d.result() == "first"


def test_a_dhaga_may_cancel_itself() -> None:
    trace = []

    def cancels() -> None:
        assert dhaga.current().cancel("by itself")
        trace.append("still running")
        dhaga.sleep(0)
        trace.append("not reached")

    with virtual_clock():
        d = dhaga.spawn(cancels)
        with pytest.raises(dhaga.Cancelled, match="by itself"):
            d.result()
    assert trace == ["still running"]


def test_finally_may_park_and_is_cancelled_only_by_another_cancel() -> None:
    trace = []

    def waits() -> None:
        try:
            dhaga.sleep(1000)
        finally:
            try:
                dhaga.sleep(10)
                trace.append("not reached the second time")
            finally:
                dhaga.sleep(10)
                trace.append(f"finally at {clock()}")

    with virtual_clock() as clock:
        d = dhaga.spawn(waits)
        settle()
        d.cancel("first")
        dhaga.sleep(5)
        d.cancel("second")
        with pytest.raises(dhaga.Cancelled, match="second"):
            d.result()
    assert trace == ["finally at 15.0"]


def test_a_swallowed_cancel_is_over() -> None:
    def swallows() -> str:
        try:
            dhaga.sleep(1000)
        except dhaga.Cancelled:
            pass
        dhaga.sleep(1)
        return "went on"

    with virtual_clock():
        d = dhaga.spawn(swallows)
        settle()
        d.cancel()
        assert d.result() == "went on"


def test_a_cancelled_joiner_leaves_the_one_it_joined_alone() -> None:
    with virtual_clock() as clock:
        d = dhaga.spawn(dhaga.sleep, 10)
        joiner = dhaga.spawn(d.join)
        settle()
        joiner.cancel()
        joiner.join()
        assert clock() == 0 and d.is_alive() and not any(d._joiners)
        d.join()


@pytest.mark.crowd
def test_cancel_from_other_threads_reaches_any_state() -> None:
    """The cancel is never lost and never comes twice, and the dhaga always ends by it."""

    def waits() -> None:
        while True:
            dhaga.sleep(0)

    with dhaga.Scheduler() as scheduler:
        for n in range(100):
            d = scheduler.spawn(waits if n % 2 else functools.partial(dhaga.park, "nothing"))
            thread = threading.Thread(target=d.cancel, args=(n,))
            thread.start()
            with pytest.raises(dhaga.Cancelled) as info:
                d.result()
            assert info.value.reason == n
            thread.join()
