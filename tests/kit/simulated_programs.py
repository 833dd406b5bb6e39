"""Small programs of many kinds that know nothing of a simulation: standard threads, executors, coroutines and clocks.

The same seed must repeat a run exactly. The programs use modules, and no names that were bound before a patch.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import datetime
import itertools
import logging
import logging.handlers
import multiprocessing.pool
import os
import queue
import random
import sched
import secrets
import select
import selectors
import socket
import tempfile
import threading
import time
import uuid
import zlib
from collections.abc import Callable
from typing import Any

import dhaga
from tests.kit.races import run_threads

Program = Callable[[], None]

PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


def pipeline(make: Callable[[], Any], finish: Callable[[Any], object] = lambda _: None) -> None:
    """Pass numbers from two producers to two consumers."""
    items, taken = make(), []

    def produce(first: int) -> None:
        for number in range(first, first + 4):
            items.put(number)
            time.sleep(random.random())

    def consume() -> None:
        for _ in range(4):
            taken.append(items.get())

    run_threads(lambda: produce(0), lambda: produce(10), consume, consume)
    assert sorted(taken) == [*range(4), *range(10, 14)]
    finish(items)


@program
def queue_of_two() -> None:
    pipeline(lambda: queue.Queue(2))


@program
def queue_of_last_in_first_out() -> None:
    pipeline(queue.LifoQueue)


@program
def queue_by_priority() -> None:
    pipeline(lambda: queue.PriorityQueue(3))


@program
def simple_queue() -> None:
    pipeline(queue.SimpleQueue)


@program
def queue_with_timeouts() -> None:
    items: queue.Queue[int] = queue.Queue(1)

    def put() -> None:
        for number in range(5):
            time.sleep(random.random())
            items.put(number)

    def get() -> None:
        found = 0
        while found < 5:
            try:
                items.get(timeout=0.3)
                found += 1
            except queue.Empty:
                time.sleep(0.01)

    run_threads(put, get)


@program
def joined_queue() -> None:
    items: queue.Queue[int] = queue.Queue()

    def work() -> None:
        while (number := items.get()) >= 0:
            time.sleep(number / 10)
            items.task_done()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(9):
        items.put(number)
    items.join()
    for _ in threads:
        items.put(-1)
    for thread in threads:
        thread.join()


@program
def lock_with_timeout() -> None:
    lock = threading.Lock()
    results = []

    def hold() -> None:
        got = lock.acquire(timeout=random.random())
        results.append(got)
        if got:
            time.sleep(0.4)
            lock.release()

    run_threads(*[hold] * 4)
    assert any(results)


@program
def reentrant_lock() -> None:
    lock = threading.RLock()
    order: list[int] = []

    def nest(number: int) -> None:
        with lock:
            order.append(number)
            with lock:
                time.sleep(0)
                order.append(number)

    run_threads(*[lambda number=number: nest(number) for number in range(4)])
    assert all(first == second for first, second in zip(order[::2], order[1::2], strict=True))


@program
def condition() -> None:
    ready = threading.Condition()
    items: list[int] = []

    def take() -> None:
        with ready:
            assert ready.wait_for(lambda: items, 60)
            items.pop()

    def give() -> None:
        for number in range(3):
            with ready:
                items.append(number)
                ready.notify()

    run_threads(take, take, take, give)


@program
def semaphore() -> None:
    places = threading.BoundedSemaphore(2)
    inside = most = 0

    def enter() -> None:
        nonlocal inside, most
        with places:
            inside += 1
            most = max(most, inside)
            time.sleep(random.random())
            inside -= 1

    run_threads(*[enter] * 5)
    assert 1 <= most <= 3  # the count itself is not locked


@program
def barrier() -> None:
    meeting = threading.Barrier(3)
    run_threads(*[lambda: [meeting.wait() for _ in range(3)]] * 3)


@program
def event() -> None:
    go = threading.Event()
    run_threads(go.wait, go.wait, lambda: go.wait(0.5), lambda: (time.sleep(random.random()), go.set()))


@program
def timers() -> None:
    fired: list[int] = []
    started = [threading.Timer(random.uniform(0, 10), fired.append, (number,)) for number in range(5)]
    for timer in started:
        timer.start()
    started[2].cancel()
    for timer in started:
        timer.join()
    assert 2 not in fired and len(fired) == 4


@program
def thread_locals() -> None:
    local = threading.local()

    def count() -> None:
        for number in range(3):
            local.number = number
            time.sleep(0)
            assert local.number == number

    run_threads(count, count, count)


@program
def daemons_are_left() -> None:
    threading.Thread(target=lambda: [time.sleep(1) for _ in range(100)], daemon=True).start()
    time.sleep(3.5)


@program
def executor_map() -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        assert list(executor.map(lambda number: time.sleep(1 / number) or number, range(1, 8))) == [*range(1, 8)]


@program
def executor_as_completed() -> None:
    executor = concurrent.futures.ThreadPoolExecutor(2)
    futures = [executor.submit(time.sleep, random.random()) for _ in range(5)]
    assert len(list(concurrent.futures.as_completed(futures))) == 5
    # Otherwise it would join its threads in the order of a set, which depends on their addresses.
    executor.shutdown(wait=False)


@program
def executor_that_is_shut_down() -> None:
    executor = concurrent.futures.ThreadPoolExecutor(1)
    futures = [executor.submit(time.sleep, 1) for _ in range(4)]
    time.sleep(1.5)
    executor.shutdown(cancel_futures=True)
    assert 1 <= sum(not future.cancelled() for future in futures) <= 3


@program
def thread_pool() -> None:
    with multiprocessing.pool.ThreadPool(3) as pool:
        assert sorted(pool.imap_unordered(abs, range(-5, 0))) == [1, 2, 3, 4, 5]


@program
def dhagas_and_a_pool() -> None:
    dhagas = [dhaga.spawn(lambda number=number: dhaga.sleep(random.random()) or number) for number in range(5)]
    assert [each.result() for each in dhagas] == [0, 1, 2, 3, 4]
    assert dhaga.offload(sum, [1, 2]) == 3


@program
def scope_of_dhagas() -> None:
    done: list[int] = []
    with dhaga.Scope() as scope:
        for number in range(4):
            scope.spawn(lambda number=number: (dhaga.sleep(random.random()), done.append(number)))
    assert sorted(done) == [0, 1, 2, 3]


@program
def coroutines() -> None:
    async def wait(number: int) -> int:
        await asyncio.sleep(random.random())
        return number

    async def main() -> list[int]:
        return await asyncio.gather(*map(wait, range(4)))

    assert asyncio.run(main()) == [0, 1, 2, 3]


@program
def coroutines_with_a_queue() -> None:
    async def main() -> int:
        items: asyncio.Queue[int] = asyncio.Queue(1)

        async def put() -> None:
            for number in range(5):
                await items.put(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(put())
            got = group.create_task(get(items))
        return got.result()

    async def get(items: asyncio.Queue[int]) -> int:
        return sum([await asyncio.wait_for(items.get(), 10) for _ in range(5)])

    assert asyncio.run(main()) == 10


@program
def coroutines_beside_threads() -> None:
    def run(number: int) -> None:
        async def main() -> int:
            return await asyncio.to_thread(lambda: time.sleep(0.2) or number)

        assert asyncio.run(main()) == number

    run_threads(lambda: run(1), lambda: run(2), lambda: time.sleep(0.3))


@program
def coroutine_from_a_thread() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def answer() -> int:
        await asyncio.sleep(1)
        return 42

    assert asyncio.run_coroutine_threadsafe(answer(), loop).result(10) == 42
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@program
def draws() -> None:
    names = [
        random.random(),
        uuid.uuid4(),
        uuid.uuid1(),
        secrets.token_hex(),
        os.path.basename(tempfile.mktemp()),
        random.Random().random(),
    ]
    for name in names:
        time.sleep(zlib.crc32(str(name).encode()) % 1000)


@program
def clocks() -> None:
    began = datetime.datetime.now(datetime.UTC)
    moments = [time.monotonic(), time.perf_counter(), time.time(), time.process_time()]
    time.sleep(random.uniform(0, 10))
    assert all(
        read() - moment > 0
        for read, moment in zip((time.monotonic, time.perf_counter, time.time, time.process_time), moments, strict=True)
    )
    time.sleep((datetime.datetime.now(datetime.UTC) - began).total_seconds())


@program
def schedule_of_calls() -> None:
    scheduler = sched.scheduler(time.monotonic, time.sleep)
    for number in range(4):
        scheduler.enter(random.uniform(0, 5), number, lambda: time.sleep(0.5))
    run_threads(scheduler.run, lambda: time.sleep(2))


@program
def log_listener() -> None:
    records: queue.SimpleQueue[Any] = queue.SimpleQueue()
    kept = logging.handlers.MemoryHandler(100)
    listener = logging.handlers.QueueListener(records, kept)
    logger = logging.Logger("simulated")
    logger.addHandler(logging.handlers.QueueHandler(records))
    listener.start()
    run_threads(*[lambda: [logger.warning("hello") for _ in range(3)]] * 2)
    listener.stop()
    assert len(kept.buffer) == 6
    kept.buffer.clear()
    kept.close()


@program
def context_variables() -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)

    def count(first: int) -> None:
        number.set(first)
        time.sleep(random.random())
        assert number.get() == first

    run_threads(lambda: count(1), lambda: count(2))
    assert number.get() == 0


@program
def socket_pair() -> None:
    left, right = socket.socketpair()

    def send() -> None:
        for _ in range(3):
            left.sendall(b"x" * 1000)
            time.sleep(random.random())
        left.close()

    def receive() -> None:
        total = 0
        while data := right.recv(700):
            total += len(data)
        assert total == 3000
        right.close()

    run_threads(send, receive)


@program
def selected_sockets() -> None:
    left, right = socket.socketpair()

    def send() -> None:
        time.sleep(2)
        left.send(b"x")

    def wait() -> None:
        assert select.select([right], [], [], 1)[0] == []
        with selectors.DefaultSelector() as selector:
            selector.register(right, selectors.EVENT_READ)
            assert len(selector.select(60)) == 1

    run_threads(send, wait)
    left.close()
    right.close()


@program
def dining_in_order() -> None:
    forks = [threading.Lock() for _ in range(4)]
    meals: collections.Counter[int] = collections.Counter()

    def dine(seat: int) -> None:
        first, second = sorted((seat, (seat + 1) % 4))
        for _ in range(3):
            with forks[first], forks[second]:
                meals[seat] += 1
                time.sleep(0)

    run_threads(*[lambda seat=seat: dine(seat) for seat in range(4)])
    assert sum(meals.values()) == 12


@program
def generator_behind_a_lock() -> None:
    numbers, lock, seen = itertools.count(), threading.Lock(), set()

    def take() -> None:
        for _ in range(5):
            with lock:
                seen.add(next(numbers))

    run_threads(take, take, take)
    assert seen == set(range(15))
