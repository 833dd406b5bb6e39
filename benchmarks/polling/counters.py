"""Three ways to count the work of many tasks, in counts per second: in local batches, in a Counter, and under a lock.

Each task counts to 1,000, adds its batch to the total (if it counts in batches), and lets others run. It repeats this
until the time is up. On schedulers, the tasks are 20 dhagas with Dhaga's lock; on threads, they are four threads with
the standard lock.
"""

import threading
import timeit
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Any

import dhaga
from dhaga import Scheduler
from dhaga.metrics import Counter
from dhaga.threading import Lock

BATCH = 1000
DHAGAS, THREADS = 20, 4
WAYS = ("batches", "Counter", "lock")
PUBLISHED = {"batches": 1.0, "Counter": 0.0084, "lock": 0.0024}
"""Published rates of counting in local batches, with an atomic and under a mutex, as fractions of the first rate."""

Count = Callable[[], object]
"""A function that counts to BATCH."""

ADDS = 10_000


class Tally:
    """An int under a lock."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock
        self.total = 0

    def count(self) -> None:
        """Count to BATCH, and acquire the lock for each count."""
        for _ in range(BATCH):
            with self.lock:
                self.total += 1


def _in_batches(counter: Counter) -> None:
    mine = 0
    for _ in range(BATCH):
        mine += 1
    counter.add(mine)


def _one_by_one(counter: Counter) -> None:
    for _ in range(BATCH):
        counter.add()


def _way(name: str, lock: Callable[[], Any]) -> tuple[Counter | Tally, Count]:
    """Return the object that holds the count, and the function that counts to BATCH there."""
    if name == "lock":
        tally = Tally(lock())
        return tally, tally.count
    counter, way = Counter(), _in_batches if name == "batches" else _one_by_one
    return counter, lambda: way(counter)


class CountingTasks:
    """Tasks that count until they are stopped. Records how often each task has counted to BATCH."""

    def __init__(self) -> None:
        self.over = False
        self.batches: list[int] = []

    def task(self, count: Count, let_others: Count) -> None:
        """Count until ``over`` is set."""
        done, going_on = 0, True
        while going_on:
            count()
            done += 1
            let_others()
            going_on = not self.over
        self.batches.append(done)


@contextmanager
def _on_schedulers(number: int, shift: CountingTasks, count: Count) -> Iterator[None]:
    with ExitStack() as stack:
        rooms = [stack.enter_context(Scheduler(name=f"counting {n}")) for n in range(number)]
        tasks = [rooms[n % number].spawn(shift.task, count, dhaga.sleep) for n in range(DHAGAS)]
        yield
        for task in tasks:
            task.result()


@contextmanager
def _on_threads(shift: CountingTasks, count: Count) -> Iterator[None]:
    threads = [threading.Thread(target=shift.task, args=(count, int)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


PLACES: dict[str, Any] = {
    "one scheduler": (Lock, lambda shift, count: _on_schedulers(1, shift, count)),
    "four schedulers": (Lock, lambda shift, count: _on_schedulers(4, shift, count)),
    "four threads": (threading.Lock, _on_threads),
}


def rate(place: str, way: str, seconds: float) -> float:
    """Return counts per second. Raises: AssertionError if a count was lost."""
    lock, workers = PLACES[place]
    counted, count = _way(way, lock)
    shift = CountingTasks()
    began = monotonic()
    with workers(shift, count):
        try:
            sleep(seconds)
        finally:
            shift.over = True
    took = monotonic() - began
    assert counted.total == sum(shift.batches) * BATCH, f"{way} on {place} lost some"
    return counted.total / took


def nanoseconds_of_add() -> float:
    """Return the time of an `add` without contention in ns: the minimum of several measurements."""
    return min(timeit.repeat("add()", globals={"add": Counter().add}, number=ADDS, repeat=200)) / ADDS * 1e9
