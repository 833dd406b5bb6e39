"""Eventlet's queues: bounds that change, and none at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dhaga.compat import eventlet
from dhaga.compat.eventlet.queue import Empty, Full, LifoQueue, LightQueue, PriorityQueue, Queue
from dhaga.testing import virtual_clock


@pytest.fixture(autouse=True)
def clock() -> Iterator[Any]:
    with virtual_clock() as clock:
        yield clock


@pytest.mark.parametrize(("kind", "order"), [(Queue, [2, 3, 1]), (LifoQueue, [1, 3, 2]), (PriorityQueue, [1, 2, 3])])
def test_the_order_of_each_kind(kind: type[Queue], order: list[int]) -> None:
    queue = kind()
    for item in (2, 3, 1):
        queue.put(item)
    assert [queue.get() for _ in range(3)] == order and queue.empty() and queue.unfinished_tasks == 3


def test_waits_at_both_ends_have_an_end() -> None:
    queue = LightQueue(1)
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(Empty):
        queue.get(timeout=1)
    queue.put(1)
    with pytest.raises(Full):
        queue.put_nowait(2)
    with pytest.raises(Full):
        queue.put(2, timeout=1)
    assert queue.full() and (queue.putting(), queue.getting()) == (0, 0)
    assert queue.get() == 1


def test_a_putter_that_is_killed_leaves_no_item() -> None:
    queue = LightQueue(1)
    queue.put("first")
    putters = [eventlet.spawn(queue.put, "same") for _ in range(3)]
    eventlet.sleep(0)
    assert queue.putting() == 3 and "putters[3]" in str(queue)
    putters[1].kill()
    assert [queue.get() for _ in range(3)] == ["first", "same", "same"] and queue.empty()
    eventlet.sleep(0)


def test_a_queue_of_size_0_hands_over() -> None:
    queue = Queue(0)
    assert queue.empty() and queue.full()
    with pytest.raises(Full):
        queue.put_nowait(0)
    putter = eventlet.spawn(queue.put, 1)
    eventlet.sleep(0)
    assert queue.qsize() == 0 and not putter.dead
    assert queue.get() == 1 and putter.wait() is None
    getter = eventlet.spawn(queue.get)
    eventlet.sleep(0)
    queue.put_nowait(2)
    assert getter.wait() == 2


def test_a_resize_lets_putters_in() -> None:
    queue = Queue(1)
    putters = [eventlet.spawn(queue.put, number) for number in range(4)]
    eventlet.sleep(0)
    queue.resize(3)
    eventlet.sleep(0)
    assert [each.dead for each in putters] == [True, True, True, False] and queue.qsize() == 3
    queue.resize(None)
    eventlet.sleep(0)
    assert [queue.get() for _ in range(4)] == [0, 1, 2, 3]


def test_join_waits_until_each_item_is_done() -> None:
    queue = Queue()
    queue.join()
    for item in range(3):
        queue.put(item)
    done: list[int] = []

    def work() -> None:
        while True:
            item = queue.get()
            eventlet.sleep(1)
            done.append(item)
            queue.task_done()

    worker = eventlet.spawn(work)
    queue.join()
    assert done == [0, 1, 2]
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()
    worker.kill()


def test_an_own_order() -> None:
    class Evens(LightQueue):
        def _put(self, item: int) -> None:
            super()._put(item * 2)

    queue = Evens()
    getter = eventlet.spawn(queue.get)
    eventlet.sleep(0)
    queue.put(1)
    queue.put(2)
    assert (getter.wait(), queue.get()) == (2, 4)


def test_a_putter_of_a_queue_of_size_0_goes_on_after_its_getter() -> None:
    queue = Queue(0)
    trace: list[str] = []

    def get() -> None:
        for _ in range(2):
            trace.append(f"got {queue.get()}")

    getter = eventlet.spawn(get)
    eventlet.sleep(0)
    for item in "ab":
        queue.put(item)
        trace.append(f"put {item}")
    getter.wait()
    assert trace == ["got a", "put a", "got b", "put b"]


def test_a_timeout_strikes_a_putter_before_it_hands_over_or_not_at_all() -> None:
    queue = Queue(0)
    getter = eventlet.spawn(queue.get)
    eventlet.sleep(0)
    with eventlet.Timeout(0, False):
        queue.put("lost")
    queue.put("taken")
    assert getter.wait() == "taken"
