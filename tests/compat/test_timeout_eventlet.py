"""Eventlet's Timeout: it counts from its making on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.timeout import Timeout, is_timeout, with_timeout, wrap_is_timeout
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


def test_it_raises_itself_another_error_or_nothing_beyond_its_block(clock: Any) -> None:
    with pytest.raises(Timeout) as caught, Timeout(2) as timeout:
        eventlet.sleep(9)
    assert caught.value is timeout and clock() == 2 and not timeout.pending
    for given in (KeyError, KeyError("late")):
        with pytest.raises(KeyError), Timeout(1, given):
            eventlet.sleep(9)
    with Timeout(1, False):
        eventlet.sleep(9)
    assert clock() == 5


def test_it_counts_until_it_is_cancelled_and_may_start_again() -> None:
    timeout = Timeout(1)
    assert timeout.pending and "pending" in repr(timeout)
    with pytest.raises(AssertionError, match="already started"):
        timeout.start()
    timeout.cancel()
    eventlet.sleep(3)
    timeout.start()
    with pytest.raises(Timeout):
        eventlet.sleep(3)
    assert not Timeout().pending and str(Timeout()) == ""


def test_one_that_has_expired_while_its_greenthread_was_runnable_is_taken_back_by_cancel() -> None:
    timeout = Timeout(1)
    eventlet.spawn(eventlet.sleep, 1)
    timeout._expire()  # the main code runs, and meets the error at its next park
    timeout.cancel()
    eventlet.sleep(2)


def test_with_timeout_returns_its_value_for_its_own_timeout_alone() -> None:
    assert with_timeout(1, eventlet.sleep, 9, timeout_value="late") == "late"
    assert with_timeout(1, divmod, 7, 2) == (3, 1)
    with pytest.raises(Timeout):
        with_timeout(1, eventlet.sleep, 9)
    outer = Timeout(1)
    with pytest.raises(Timeout) as caught:
        with_timeout(5, eventlet.sleep, 9, timeout_value="inner")
    assert caught.value is outer


def test_what_is_a_timeout_says_so() -> None:
    timeout = Timeout(1, False)
    timeout.cancel()
    assert str(timeout) == "1 second (silent)"
    assert is_timeout(timeout) and is_timeout(TimeoutError()) and not is_timeout(KeyError())

    class Late(Exception): ...

    assert is_timeout(wrap_is_timeout(Late)()) and is_timeout(wrap_is_timeout(lambda: OSError())())


def test_one_of_0_seconds_is_raised_where_its_greenthread_parks_next_and_others_get_a_turn(clock: Any) -> None:
    turns: list[int] = []
    eventlet.spawn(turns.append, 1)
    with pytest.raises(KeyError):
        with Timeout(0, KeyError):
            eventlet.sleep(5)
    assert turns == [1] and clock() == 0
    for _ in range(3):
        eventlet.spawn(turns.append, 2)
        with Timeout(-1, False):
            eventlet.Event().wait()
    assert turns == [1, 2, 2, 2]
    with Timeout(0):  # nothing parks
        pass
    assert with_timeout(0, eventlet.sleep, 5, timeout_value="late") == "late" and clock() == 0


def test_one_of_0_seconds_takes_nothing_that_is_handed_over() -> None:
    queue: eventlet.Queue = eventlet.Queue()

    def get() -> Any:
        with Timeout(0, False):
            return queue.get()

    getters = [eventlet.spawn(get), eventlet.spawn(queue.get)]
    eventlet.sleep(0)
    queue.put("item")
    assert [each.wait() for each in getters] == [None, "item"]
