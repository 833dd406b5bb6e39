"""Each primitive among three threads that never sleep: ``make test-simulated`` draws where each one is interrupted.

A virtual clock moves only while every thread waits. So a thread that is interrupted between two lines of a primitive
meets only the threads that are runnable at that moment: here all are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga.queue
from dhaga import threading as ours
from dhaga.pool import Pool

THREADS = 3
ROUNDS = 3


def run_threads(function: Callable[[int], object]) -> None:
    """Call a function in each thread, with its number."""
    threads = [threading.Thread(target=function, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kind", [ours.Lock, ours.RLock, ours.Condition, lambda: ours.Semaphore(1)])
def test_one_thread_at_a_time_holds_it(kind: Callable[[], Any]) -> None:
    lock, inside = kind(), 0

    def takes(_: int) -> None:
        nonlocal inside
        for _ in range(ROUNDS):
            with lock:
                inside += 1
                seen = inside
                inside -= 1
                assert seen == 1

    run_threads(takes)
    assert inside == 0 and lock.acquire(blocking=False)


@pytest.mark.parametrize("kind", [dhaga.queue.Queue, dhaga.queue.PriorityQueue, dhaga.queue.LifoQueue])
def test_a_full_queue_hands_each_item_over_once(kind: Callable[..., Any]) -> None:
    queue, got = kind(1), []

    def passes_on(number: int) -> None:
        for turn in range(ROUNDS):
            queue.put(number * ROUNDS + turn)
            got.append(queue.get())
            queue.task_done()

    run_threads(passes_on)
    queue.join()
    assert sorted(got) == [*range(THREADS * ROUNDS)] and queue.empty()


def test_a_simple_queue_hands_each_item_over_once() -> None:
    queue: Any = dhaga.queue.SimpleQueue()
    got: list[int] = []

    def passes_on(number: int) -> None:
        for turn in range(ROUNDS):
            queue.put(number * ROUNDS + turn)
            got.append(queue.get())

    run_threads(passes_on)
    assert sorted(got) == [*range(THREADS * ROUNDS)] and queue.empty()


def test_a_notify_is_not_lost() -> None:
    condition, tokens = ours.Condition(), 1

    def takes_turns(_: int) -> None:
        nonlocal tokens
        for _ in range(ROUNDS):
            with condition:
                while not tokens:
                    condition.wait()
                tokens -= 1
            with condition:
                tokens += 1
                condition.notify()

    run_threads(takes_turns)
    assert tokens == 1


def test_all_come_through_a_barrier_together() -> None:
    barrier, rounds = ours.Barrier(THREADS), []

    def meets(_: int) -> None:
        for turn in range(ROUNDS):
            barrier.wait()
            rounds.append(turn)
            barrier.wait()

    run_threads(meets)
    assert rounds == sorted(rounds) and len(rounds) == THREADS * ROUNDS


def test_an_event_wakes_everybody() -> None:
    events = [ours.Event() for _ in range(THREADS)]

    def sets_and_waits(number: int) -> None:
        events[number].set()
        for event in events:
            assert event.wait()

    run_threads(sets_and_waits)


def test_a_pool_makes_each_call_once() -> None:
    made: list[int] = []

    with Pool(2, 1) as pool:

        def submits(number: int) -> None:
            calls = [pool.submit(made.append, number * ROUNDS + turn) for turn in range(ROUNDS)]
            assert [call.result() for call in calls] == [None] * ROUNDS

        run_threads(submits)
    assert sorted(made) == [*range(THREADS * ROUNDS)]
