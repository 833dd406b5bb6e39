"""gevent's queues, and Channel."""

from __future__ import annotations

from typing import Any

import pytest

from dhaga.compat import gevent
from dhaga.compat.gevent.queue import (
    Channel,
    Empty,
    Full,
    JoinableQueue,
    LifoQueue,
    PriorityQueue,
    Queue,
    ShutDown,
    UnboundQueue,
)

pytestmark = pytest.mark.usefixtures("clock")


@pytest.mark.parametrize(("kind", "order"), [(Queue, [3, 1, 2]), (LifoQueue, [2, 1, 3]), (PriorityQueue, [1, 2, 3])])
def test_peek_returns_what_get_will(kind: type[Queue[int]], order: list[int]) -> None:
    queue = kind()
    with pytest.raises(Empty):
        queue.peek_nowait()
    with pytest.raises(Empty):
        queue.peek(timeout=1)
    for each in (3, 1, 2):
        queue.put(each)
    got = []
    while not queue.empty():
        got.append(queue.peek())
        assert queue.get() == got[-1]
    assert got == order


def test_peek_waits_and_leaves_the_item() -> None:
    queue: Queue[int] = Queue()
    waiting = gevent.spawn(queue.peek)
    gevent.sleep(1)
    queue.put(5)
    assert (waiting.get(), queue.get(), queue.qsize()) == (5, 5, 0)


def test_items_to_begin_with_and_iteration_to_the_end_mark() -> None:
    queue: Queue[object] = Queue(items=[1, 2, StopIteration, 3])
    assert (len(queue), list(queue), queue.get()) == (4, [1, 2], 3)
    assert list(Queue(None, [1, 2]).copy().queue) == [1, 2]
    assert bool(UnboundQueue())


def test_a_negative_timeout_counts_as_in_gevent() -> None:
    queue: Queue[int] = Queue(1)
    for call in (lambda: queue.put(1, timeout=-1), lambda: Queue().put(1, timeout=-1)):
        with pytest.raises(ValueError, match="non-negative"):
            call()
    for call in (lambda: queue.get(timeout=-1), lambda: queue.peek(timeout=-1)):
        with pytest.raises(ValueError, match="non-negative"):
            call()
    with pytest.raises(Empty):
        queue.peek(False, -1)
    queue.put(1, False, -1)
    with pytest.raises(Full):
        queue.put(2, timeout=-1)
    assert queue.peek(timeout=-1) == queue.get(timeout=-1) == 1


def test_a_full_queue_lets_a_putter_wait() -> None:
    queue: Queue[int] = Queue(1)
    queue.put(1)
    assert queue.full()
    with pytest.raises(Full):
        queue.put_nowait(2)
    with pytest.raises(Full):
        queue.put(2, timeout=1)
    putter = gevent.spawn(queue.put, 2)
    gevent.sleep(1)
    assert (queue.get(), queue.get()) == (1, 2)
    putter.get()


def test_join_waits_for_the_tasks() -> None:
    queue: JoinableQueue[int] = JoinableQueue(items=[1, 2])

    def work() -> None:
        for _ in range(2):
            queue.get()
            gevent.sleep(1)
            queue.task_done()

    worker = gevent.spawn(work)
    queue.join()
    assert queue.unfinished_tasks == 0
    worker.join()


def test_a_channel_hands_over() -> None:
    channel: Channel[int] = Channel()
    with pytest.raises(Full):
        channel.put_nowait(1)
    with pytest.raises(Empty):
        channel.get_nowait()
    with pytest.raises(Full):
        channel.put(1, timeout=1)
    with pytest.raises(Empty):
        channel.get(timeout=1)
    putters = [gevent.spawn(channel.put, each) for each in range(3)]
    gevent.sleep(1)
    assert channel.balance == 3 and not any(each.ready() for each in putters)
    assert [channel.get() for _ in range(3)] == [0, 1, 2]
    gevent.joinall(putters, raise_error=True)
    assert channel.balance == 0
    getter = gevent.spawn(channel.get)
    gevent.sleep(1)
    channel.put_nowait(9)
    assert getter.get() == 9


def test_join_takes_a_timeout(clock: Any) -> None:
    queue: Queue[int] = Queue(items=[1])
    assert not queue.join(timeout=2)
    gevent.spawn_later(1, queue.task_done)
    assert queue.join(timeout=2) and queue.join()


def test_a_channel_takes_an_item_from_a_callback_for_a_getter_that_waits(clock: Any) -> None:
    channel: Channel[int] = Channel()
    getter = gevent.spawn(channel.get)
    gevent.sleep(0)
    gevent.get_hub().loop.run_callback(channel.put_nowait, 5)
    assert getter.get() == 5 and channel.balance == 0
    with pytest.raises(Full):
        channel.put_nowait(6)


@pytest.mark.parametrize("kind", [Queue, LifoQueue, PriorityQueue])
def test_a_peeker_is_shown_the_item_that_the_getter_behind_it_takes(clock: Any, kind: Any) -> None:
    queue: Queue[str] = kind(1)
    seen: list[tuple[str, str]] = []
    waits = [("peek", queue.peek), ("get", queue.get), ("late peek", queue.peek)]
    greenlets = [gevent.spawn(lambda name, wait: seen.append((name, wait())), name, wait) for name, wait in waits]
    gevent.sleep(1)
    queue.put("first")
    gevent.joinall(greenlets, timeout=1)
    assert seen == [("peek", "first"), ("get", "first")]
    queue.put("second")
    assert queue.full() and queue.peek() == "second"
    gevent.joinall(greenlets, raise_error=True)
    assert seen[2:] == [("late peek", "second")]
    assert queue.get() == "second"


def test_a_peeker_that_leaves_hinders_no_one(clock: Any) -> None:
    queue: Queue[int] = Queue()
    killed = gevent.spawn(queue.peek)
    gevent.sleep(1)
    killed.kill()
    with pytest.raises(Empty):
        queue.peek(timeout=1)
    with pytest.raises(gevent.Timeout):
        queue.peek(timeout=gevent.Timeout(1))
    getter = gevent.spawn(queue.get)
    gevent.sleep(1)
    queue.put(1)
    assert getter.get() == 1 and queue.empty()
    queue.shutdown()
    with pytest.raises(ShutDown):
        queue.peek()


def test_a_put_that_times_out_withdraws_its_own_item_and_not_an_equal_one() -> None:
    channel: Channel[str] = Channel()
    patient = gevent.spawn(channel.put, "same")
    hasty = gevent.spawn(channel.put, "same", timeout=1)
    with pytest.raises(Full):
        hasty.get()
    assert channel.balance == 1 and channel.get() == "same"
    patient.join()
    assert patient.successful() and channel.balance == 0
