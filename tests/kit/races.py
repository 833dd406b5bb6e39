"""Twenty small programs of threads, each with a classic race. They pass in FIFO order, and fail in some schedules."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

Race = Callable[[], None]

RACES: dict[str, Race] = {}


def race(function: Race) -> Race:
    RACES[function.__name__] = function
    return function


def run_threads(*targets: Callable[[], object]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@race
def lost_update() -> None:
    total = 0

    def add() -> None:
        nonlocal total
        seen = total
        total = seen + 1

    run_threads(add, add)
    assert total == 2


@race
def check_then_act() -> None:
    balance = 100

    def withdraw() -> None:
        nonlocal balance
        if balance >= 60:
            left = balance
            left -= 60
            balance = left
            paid.append(60)

    paid: list[int] = []
    run_threads(withdraw, withdraw)
    assert sum(paid) <= 100


@race
def created_twice() -> None:
    made: list[object] = []
    only: list[object] = []

    def get() -> object:
        if not only:
            new = object()
            made.append(new)
            only.append(new)
        return only[0]

    run_threads(get, get)
    assert len(made) == 1


@race
def double_checked_creation() -> None:
    class Settings:
        ready: dict[str, int]

    settings: list[Any] = []
    lock = threading.Lock()

    def use() -> None:
        if not settings:
            with lock:
                if not settings:
                    new = Settings()
                    settings.append(new)
                    new.ready = {"limit": 1}
        assert settings[0].ready["limit"] == 1

    run_threads(use, use)


@race
def lock_order() -> None:
    left, right = threading.Lock(), threading.Lock()

    def move(first: Any, second: Any) -> None:
        with first:
            with second:
                pass

    run_threads(lambda: move(left, right), lambda: move(right, left))


@race
def dining() -> None:
    forks = [threading.Lock() for _ in range(3)]

    def dine(place: int) -> None:
        with forks[place]:
            with forks[(place + 1) % 3]:
                pass

    run_threads(*(lambda place=place: dine(place) for place in range(3)))


@race
def notify_before_wait() -> None:
    condition = threading.Condition()
    ready = False

    def consume() -> None:
        if not ready:
            with condition:
                condition.wait()

    def produce() -> None:
        nonlocal ready
        ready = True
        with condition:
            condition.notify()

    run_threads(consume, produce)


@race
def woken_for_another() -> None:
    condition = threading.Condition()
    items: list[int] = []

    def consume() -> None:
        with condition:
            if not items:
                condition.wait()
            items.pop()

    def produce() -> None:
        for item in range(2):
            with condition:
                items.append(item)
                condition.notify_all()

    run_threads(produce, consume, consume)


@race
def iteration_beside_change() -> None:
    sessions = dict.fromkeys(range(3), "open")

    def count() -> None:
        for number in sessions:
            assert sessions[number] == "open"

    def close() -> None:
        del sessions[0]
        sessions[9] = "open"
        sessions[10] = "open"

    run_threads(count, close)


@race
def aba() -> None:
    """A stack without a lock: between a read and its compare-and-set, the same node has come back."""
    free = {"a": "b", "b": "c", "c": ""}
    top = "a"
    taken: list[str] = []

    def compare_and_set(expected: str, new: str) -> bool:
        nonlocal top
        with atomic:
            if top != expected:
                return False
            top = new
            return True

    def pop() -> str:
        while True:
            seen = top
            following = free[seen]
            if compare_and_set(seen, following):
                return seen

    def push(node: str) -> None:
        while True:
            seen = top
            free[node] = seen
            if compare_and_set(seen, node):
                return

    def take() -> None:
        taken.append(pop())

    def take_two_and_return_one() -> None:
        first, second = pop(), pop()
        taken.append(second)
        push(first)

    atomic = threading.Lock()
    run_threads(take, take_two_and_return_one)
    assert top not in taken


@race
def torn_write() -> None:
    point = {"x": 0, "y": 0}

    def move() -> None:
        point["x"] += 1
        point["y"] += 1

    def look() -> None:
        x, y = point["x"], point["y"]
        assert x == y

    run_threads(move, look)


@race
def acknowledged_before_written() -> None:
    acknowledged: list[int] = []
    written: list[int] = []

    def serve() -> None:
        for request in range(3):
            acknowledged.append(request)
            written.append(request)
            time.sleep(0.001)

    def crash() -> None:
        time.sleep(0.001)
        assert acknowledged == written

    run_threads(serve, crash)


@race
def published_before_filled() -> None:
    done = threading.Event()
    result: list[int] = []

    def compute() -> None:
        done.set()
        result.append(42)

    def use() -> None:
        done.wait()
        assert result == [42]

    run_threads(use, compute)


@race
def stopped_too_early() -> None:
    work: deque[int] = deque()
    stopping = False
    handled: list[int] = []

    def produce() -> None:
        nonlocal stopping
        for item in range(3):
            work.append(item)
        stopping = True

    def consume() -> None:
        while True:
            if work:
                handled.append(work.popleft())
            elif stopping:
                return
            else:
                time.sleep(0.001)

    run_threads(consume, produce)
    assert handled == [0, 1, 2]


@race
def empty_then_get() -> None:
    tasks: queue.Queue[int] = queue.Queue()
    for number in range(3):
        tasks.put(number)

    def work() -> None:
        while not tasks.empty():
            tasks.get()

    run_threads(work, work)


@race
def computed_twice() -> None:
    cache: dict[str, int] = {}
    computed: list[str] = []

    def value(key: str) -> int:
        if key not in cache:
            time.sleep(0.01)
            computed.append(key)
            cache[key] = 1
        return cache[key]

    def second() -> None:
        time.sleep(0.01)
        value("a")

    run_threads(lambda: value("a"), second)
    assert computed == ["a"]


@race
def upgraded_lock() -> None:
    """A readers' lock that two readers want to turn into a writer's lock at once."""
    condition = threading.Condition()
    readers = 0

    def update() -> None:
        nonlocal readers
        with condition:
            readers += 1
        with condition:
            while readers > 1:
                condition.wait()
            readers -= 1
            condition.notify_all()

    run_threads(update, update)


@race
def same_number() -> None:
    last = 0
    given: list[int] = []

    def number() -> None:
        nonlocal last
        last += 1
        given.append(last)

    run_threads(number, number, number)
    assert len(set(given)) == 3


@race
def used_after_close() -> None:
    class Connection:
        def __init__(self) -> None:
            self.buffer: list[str] | None = []

        def send(self, text: str) -> None:
            if self.buffer is not None:
                self.buffer.append(text)

        def close(self) -> None:
            self.buffer = None

    connection = Connection()
    run_threads(lambda: connection.send("a"), lambda: connection.send("b"), connection.close)


@race
def lease_expired() -> None:
    """A lock with a lease of 1 s: the holder sleeps for 0.9 s, but may continue after the end of the lease."""
    lease_until = 0.0
    owner: list[str] = []

    def hold(name: str) -> None:
        nonlocal lease_until
        while time.monotonic() < lease_until:
            time.sleep(0.5)
        lease_until = time.monotonic() + 1
        owner.append(name)
        time.sleep(0.9)
        assert owner == [name]
        owner.remove(name)

    run_threads(lambda: hold("a"), lambda: hold("b"))
