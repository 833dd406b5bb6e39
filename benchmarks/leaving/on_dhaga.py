"""The measurements on dhagas. Each function is called in a new process; see ``__main__.py``."""

from __future__ import annotations

import random
import threading as standard_threading
from collections.abc import Callable
from time import monotonic, thread_time
from typing import Any

import dhaga
from benchmarks.leaving.settings import SPREAD_SECONDS, TICK, leaver_count, seconds_until_all_wait
from dhaga import HIGH, NORMAL, OffloadPool, socket
from dhaga.futures import Future
from dhaga.queue import Empty, Queue, SimpleQueue
from dhaga.threading import Condition, Event, Lock, Semaphore

FAR = 1e4

Wait = Callable[[float | None], object]


def _lock() -> Wait:
    lock = Lock()
    lock.acquire()
    return lambda timeout: lock.acquire(timeout=-1 if timeout is None else timeout)


def _condition() -> Wait:
    condition = Condition(Lock())

    def wait(timeout: float | None) -> None:
        with condition:
            condition.wait(timeout)

    return wait


def _offload() -> Wait:
    """Return a wait in the backlog of a pool whose only thread is busy."""
    pool, never = OffloadPool("leaving", 1), standard_threading.Event()
    dhaga.spawn(pool.offload, never.wait, daemon=True)
    dhaga.sleep(0.1)

    def wait(timeout: float | None) -> None:
        with dhaga.Timeout(timeout):
            pool.offload(int)

    return wait


def _socket_read() -> Wait:
    ours, _socket_read.theirs = socket.socketpair()  # type: ignore[attr-defined]

    def wait(timeout: float | None) -> None:
        with dhaga.Timeout(timeout):
            ours.recv(1)

    return wait


WAYS: dict[str, Callable[[], Wait]] = {
    "lock": _lock,
    "semaphore": lambda: (lambda semaphore: lambda timeout: semaphore.acquire(timeout=timeout))(Semaphore(0)),
    "condition": _condition,
    "event": lambda: Event().wait,
    "queue": lambda: (lambda queue: lambda timeout: queue.get(timeout=timeout))(Queue[int]()),
    "simple queue": lambda: (lambda queue: lambda timeout: queue.get(timeout=timeout))(SimpleQueue[int]()),
    "join": lambda: dhaga.spawn(dhaga.park, "for ever", daemon=True).join,
    "future": lambda: Future[int]().result,
    "offload": _offload,
    "socket read": _socket_read,
}


def cost(way: str, by: str, count: int) -> float:
    """Return the CPU seconds that one leaver costs, from its cancel or deadline to its end."""
    wait = WAYS[way]()
    chosen = random.Random(1).sample(range(count), leaver_count(count))
    scheduler = dhaga.current().scheduler

    def waits(n: int) -> None:
        try:
            wait(FAR if by == "timeout" and n in leavers else None)
        except (TimeoutError, Empty, dhaga.Cancelled):
            pass

    leavers = set(chosen)
    dhagas = [dhaga.spawn(waits, n, daemon=True) for n in range(count)]
    dhaga.sleep(0)
    while any(dhagas[n].state != "WAITING" for n in (0, -1)):
        dhaga.sleep(0.01)
    began = thread_time()
    if by == "timeout":
        scheduler.clock = lambda: monotonic() + FAR + 1  # all deadlines have come
        scheduler.loop.call_soon(scheduler._lap)
    else:
        for n in chosen:
            dhagas[n].cancel()
    while any(dhagas[n].is_alive() for n in chosen):
        dhaga.sleep(0)
    return (thread_time() - began) / len(chosen)


def stall(priority: str, count: int) -> dict[str, float]:
    """Return the longest delay of a dhaga that sleeps for a tick, while deadlines in random order expire.

    The delay is CPU time of the thread, which does not include other programs. If ``priority`` is LOOP, a callback of
    the loop is measured instead of a dhaga.
    """
    event, done, last, gaps = Event(), [0], [0.0], [0.0]
    loop = dhaga.current().scheduler.loop
    order = list(range(count))
    random.Random(1).shuffle(order)
    end = monotonic() + seconds_until_all_wait(count)

    def waits(n: int) -> None:
        event.wait(end + SPREAD_SECONDS * n / count - monotonic())
        done[0] += 1

    def looks() -> None:
        now = thread_time()
        gaps.append(now - last[0])
        last[0] = now
        if done[0] < count:
            loop.call_later(TICK, looks)

    def ticks() -> float:
        dhaga.sleep(end - monotonic() - 0.1)
        last[0] = thread_time()
        if priority == "LOOP":
            loop.call_soon(looks)
            while done[0] < count:
                dhaga.sleep(0.1)
        while done[0] < count:
            dhaga.sleep(TICK)
            now = thread_time()
            gaps.append(now - last[0])
            last[0] = now
        return max(gaps)

    for n in order:
        dhaga.spawn(waits, n, daemon=True)
    began = thread_time()
    longest: Any = dhaga.spawn(ticks, priority=HIGH if priority == "HIGH" else NORMAL).result()
    return {"longest": longest, "took": thread_time() - began}
