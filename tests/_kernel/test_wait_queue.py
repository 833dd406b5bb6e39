"""The wait queue: first come, first served; a waiter that leaves is not woken; a closed queue serves at once."""

from __future__ import annotations

from typing import Any

import pytest

import dhaga
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga._kernel.wait.waiter import TIMED_OUT
from dhaga.queue import Queue
from dhaga.testing import virtual_clock
from tests.kit.parking import parked


class Thing:
    """Something to wait for."""

    def __init__(self) -> None:
        self.stock: list[Any] = []
        self.waiters = WaitQueue(self, "thing")

    def get(self, timeout: float | None = None) -> Any:
        return self.waiters.wait(self.stock, self.serve, timeout)

    def serve(self) -> None:
        self.waiters.wake_first(self.stock.pop() if self.stock else "closed")


def test_waiters_are_woken_in_the_order_of_their_coming_and_name_what_they_wait_for() -> None:
    thing = Thing()
    with virtual_clock():
        dhagas = [parked(thing.get) for _ in range(3)]
        assert [d.reason for d in dhagas] == ["thing"] * 3 and thing.waiters.owner is thing
        assert thing.waiters.wake_first("first") is dhagas[0]
        thing.waiters.wake_all("all")
        assert [d.result() for d in dhagas] == ["first", "all", "all"]
        assert thing.waiters.wake_first() is None


def test_one_that_left_by_a_timeout_or_a_cancel_is_passed_over() -> None:
    thing = Thing()
    with virtual_clock():
        late = parked(thing.get, 1)
        gone, stays = parked(thing.get), parked(thing.get)
        gone.cancel()
        assert late.result() is TIMED_OUT
        assert thing.waiters.parked() == 1
        assert thing.waiters.wake_first("here") is stays
        assert stays.result() == "here"
        with pytest.raises(dhaga.Cancelled):
            gone.result()


def test_who_finds_something_there_or_a_queue_that_is_closed_is_served_at_once() -> None:
    thing = Thing()
    with virtual_clock() as clock:
        thing.stock.append("in stock")
        assert dhaga.spawn(thing.get).result() == "in stock"
        thing.waiters.closed = True
        assert dhaga.spawn(thing.get).result() == "closed" and thing.get() == "closed"
        assert clock() == 0


@pytest.mark.parametrize("start", [lambda wait: dhaga.spawn(wait).result(), lambda wait: wait()], ids=["dhaga", "main"])
def test_what_was_handed_over_is_kept_if_serving_fails_then_and_the_error_comes_at_the_next_park(start: Any) -> None:
    """As in a plain thread that a signal strikes after a waker in another thread was faster."""
    queue = WaitQueue(object, "thing")

    def serve() -> None:
        queue.wake_first("item")
        raise LookupError

    def wait() -> object:
        item = queue.wait(True, serve)
        with pytest.raises(LookupError):
            dhaga.sleep(0.001)
        return item

    dhaga.spawn(int).join()  # from now on main code parks
    assert start(wait) == "item" and not queue.parked()


def test_a_putter_that_leaves_with_an_error_of_its_queue_leaves_its_item_too() -> None:
    """A Ctrl-C may be raised in a subclass's ``_qsize``, also while the caller is queued up already."""

    class Struck(Queue[str]):
        calls = 0

        def _qsize(self) -> int:
            self.calls += 1
            if self.calls == 3:  # the second look of the second put
                raise KeyboardInterrupt
            return super()._qsize()

    def puts() -> None:
        with pytest.raises(KeyboardInterrupt):
            queue.put("lost")
        assert not dhaga.current().parked
        dhaga.sleep(1)

    with virtual_clock() as clock:
        queue = Struck(maxsize=1)
        queue.put("kept")
        putter = dhaga.spawn(puts)
        dhaga.sleep(0.5)
        assert queue.get() == "kept" and queue.empty() and queue.unfinished_tasks == 1
        putter.result()
        assert clock() == 1
