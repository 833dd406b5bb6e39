"""The selectors: they are the standard's, and park."""

from __future__ import annotations

import selectors as standard
import threading
from typing import Any

import pytest

import dhaga
from dhaga import selectors, socket
from dhaga.testing import settle
from tests.kit.scripts import prints

NAMES = ["DefaultSelector", "SelectSelector", "PollSelector", "EpollSelector", "KqueueSelector"]
each_class = pytest.mark.parametrize("name", [name for name in NAMES if hasattr(standard, name)])


@each_class
def test_a_selector_is_a_standard_one(name: str) -> None:
    assert issubclass(getattr(selectors, name), getattr(standard, name))


@each_class
def test_select_parks_until_something_is_ready(name: str) -> None:
    one, other = socket.socketpair()
    with one, other, getattr(selectors, name)() as selector:
        key = selector.register(one, selectors.EVENT_READ, "data")
        waits = dhaga.spawn(selector.select)
        settle()
        assert "WAITING" in repr(waits)
        other.send(b"x")
        assert waits.result() == [(key, selectors.EVENT_READ)]
        assert selector.select() == [(key, selectors.EVENT_READ)]
        selector.modify(one, selectors.EVENT_WRITE)
        assert [events for _, events in selector.select()] == [selectors.EVENT_WRITE]


@each_class
def test_select_parks_within_its_timeout_and_can_be_cancelled(name: str) -> None:
    one, other = socket.socketpair()
    with one, other, getattr(selectors, name)() as selector:
        selector.register(one, selectors.EVENT_READ)
        assert selector.select(0) == selector.select(-1) == selector.select(0.001) == []
        waits = dhaga.spawn(selector.select)
        settle()
        waits.cancel()
        with pytest.raises(dhaga.Cancelled):
            waits.result()


@each_class
def test_a_plain_thread_waits_for_real(name: str) -> None:
    one, other = socket.socketpair()
    found: list[Any] = []
    with one, other, getattr(selectors, name)() as selector:
        selector.register(one, selectors.EVENT_READ)
        thread = threading.Thread(target=lambda: found.extend(selector.select(5)))
        thread.start()
        other.send(b"x")
        thread.join()
    assert [key.fileobj for key, _ in found] == [one]


def test_whatever_else_there_is_is_the_standards() -> None:
    assert selectors.SelectorKey is standard.SelectorKey
    assert set(dir(standard)) <= set(dir(selectors))


def test_the_handler_of_a_signal_ends_the_wait_of_main_code_that_has_no_scheduler() -> None:
    assert prints("""
        import dhaga.monkey
        dhaga.monkey.patch()
        import select, selectors, signal, socket, time

        def handler(*args):
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise InterruptedError("by a handler")

        signal.signal(signal.SIGALRM, handler)
        one, other = socket.socketpair()
        selector = selectors.DefaultSelector()
        selector.register(one, selectors.EVENT_READ)
        waits = selector.select, lambda: select.select([one], [], []), lambda: time.sleep(20), lambda: one.recv(1)
        for wait in waits:
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.1)  # again, should the first come just before a wait
            try:
                print(wait())
            except InterruptedError as error:
                print(error)
    """) == ["[]", *3 * ["by a handler"]]
