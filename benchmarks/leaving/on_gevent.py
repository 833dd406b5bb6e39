"""The same measurements on gevent, for the primitives that gevent has."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import thread_time
from typing import Any

import gevent
from gevent import event, lock, queue

from benchmarks.leaving.settings import leaver_count

Wait = Callable[[float | None], object]


def _queue(make: Callable[[], Any]) -> Callable[[], Wait]:
    def wait_in() -> Wait:
        made = make()
        return lambda timeout: made.get(timeout=timeout)

    return wait_in


def _permits(count: int) -> Callable[[], Wait]:
    def wait_in() -> Wait:
        made: Any = lock.Semaphore(count)
        for _ in range(count):
            made.acquire()
        return lambda timeout: made.acquire(timeout=timeout)

    return wait_in


WAYS: dict[str, Callable[[], Wait]] = {
    "lock": _permits(1),
    "semaphore": _permits(0),
    "event": lambda: event.Event().wait,
    "queue": _queue(queue.Queue),
    "simple queue": _queue(queue.SimpleQueue),
    "join": lambda: gevent.spawn(gevent.sleep, 1e6).join,
    "future": lambda: (lambda result: lambda timeout: result.get(timeout=timeout))(event.AsyncResult()),
}


def cost(way: str, by: str, count: int) -> float:
    """Return the CPU seconds that one leaver costs, from its kill to its end."""
    assert by == "cancel"
    wait = WAYS[way]()
    chosen = random.Random(1).sample(range(count), leaver_count(count))
    waiting = [0]

    def waits() -> None:
        waiting[0] += 1
        try:
            wait(None)
        except gevent.GreenletExit:
            pass

    greenlets = [gevent.spawn(waits) for _ in range(count)]
    while waiting[0] < count:
        gevent.sleep(0.01)
    began = thread_time()
    for n in chosen:
        greenlets[n].kill(block=False)
    while not all(greenlets[n].dead for n in chosen):
        gevent.sleep(0)
    return (thread_time() - began) / len(chosen)
