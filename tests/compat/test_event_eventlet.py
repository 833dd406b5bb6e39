"""Eventlet's Event: sent once, to all."""

from __future__ import annotations

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.event import Event
from dhaga.testing import virtual_clock


def test_a_value_reaches_all_and_may_be_sent_again_after_a_reset_alone() -> None:
    with virtual_clock():
        event = Event()
        with pytest.raises(AssertionError, match="re-reset"):
            event.reset()
        waiters = [eventlet.spawn(event.wait) for _ in range(3)]
        eventlet.sleep(0)
        assert "_waiters[3]" in str(event) and not event.ready() and event.poll("not yet") == "not yet"
        event.send("news")
        with pytest.raises(AssertionError, match="re-send"):
            event.send()
        event.reset()
        event.send("later")
        assert [each.wait() for each in waiters] == ["news"] * 3
        assert (event.wait(), event.poll(), event.poll_result(), event.has_result()) == (
            "later",
            "later",
            "later",
            True,
        )


def test_an_error_is_raised_in_all() -> None:
    with virtual_clock():
        for args in ((KeyError("k"),), (KeyError,), (KeyError, KeyError("k"), None)):
            event = Event()
            waiter = eventlet.spawn(event.wait)
            eventlet.sleep(0)
            event.send_exception(*args)
            assert event.has_exception() and not event.has_result()
            for wait in (event.wait, event.poll_exception, waiter.wait):
                with pytest.raises(KeyError):
                    wait()


def test_a_wait_ends_after_its_time() -> None:
    with virtual_clock() as clock:
        assert Event().wait(timeout=3) is None and clock() == 3
