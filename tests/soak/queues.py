"""Queues between all places: each item that was put is taken exactly once, whoever is cancelled or out of time."""

from __future__ import annotations

import threading
from typing import Any

import dhaga
from dhaga.metrics import Counter
from dhaga.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown
from tests.soak.attempts import DEADLINE, Attempt, Scenario
from tests.soak.excuses import BY_US

KINDS = (Queue, LifoQueue, PriorityQueue)
ITEMS = 150
"""That each producer puts."""

PRODUCERS = CONSUMERS = 2
"""At each place; one of each is a plain OS thread besides."""


class Queues(Scenario):
    """Rounds, each with a queue of its own, from all places to all places."""

    name = "queues"
    width = 1

    def attempt(self, attempt: Attempt) -> None:
        with dhaga.shield():  # its producers and consumers are the ones to strike
            Round(attempt).play()


class Round:
    """One queue, those who put into it and those who take from it."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.choose = attempt.choose
        self.queue: Any = self.choose.choice(KINDS)(self.choose.choice((0, 1, 3, 20)))
        self.on_the_way: set[int] = set()
        self.taken = Counter()
        self.faults: list[BaseException] = []

    def play(self) -> None:
        """Have items put until all have been, then taken until none is left, and count."""
        places = self.attempt.run.places
        producers = [self.start(place, self.produce, n) for n, place in enumerate(places * PRODUCERS)]
        consumers = [self.start(place, self.consume) for place in places * CONSUMERS]
        threads = [self.start_thread(self.produce, len(producers)), self.start_thread(self.consume)]
        for producer in [*producers, threads[0]]:
            self.wait_for(producer)
        self.queue.join()
        self.queue.shutdown()
        for consumer in [*consumers, threads[1]]:
            self.wait_for(consumer)
        if self.faults:
            raise self.faults[0]
        put = (len(producers) + 1) * ITEMS
        if self.on_the_way or self.taken.total != put:
            raise AssertionError(f"of {put} items {self.taken.total} were taken, lost are {sorted(self.on_the_way)}")

    def start(self, place: Any, work: Any, *args: Any) -> Any:
        return place.scheduler.spawn(self.strikable, work, *args, name=f"{work.__name__} at {place.name}")

    def strikable(self, work: Any, *args: Any) -> None:
        me: Any = dhaga.current()
        self.attempt.run.victims.add(me)
        try:
            self.guarded(work, *args)
        finally:
            self.attempt.run.victims.discard(me)

    def start_thread(self, work: Any, *args: Any) -> threading.Thread:
        thread = threading.Thread(target=self.guarded, args=(work, *args), name=f"{work.__name__} in a thread")
        thread.start()
        return thread

    def guarded(self, work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            self.faults.append(error)
            self.queue.shutdown(immediate=True)

    def wait_for(self, one: Any) -> None:
        if isinstance(one, threading.Thread):
            dhaga.offload(one.join, DEADLINE)
        else:
            one.join(DEADLINE)
        if one.is_alive():
            raise AssertionError(f"{one!r} has not ended, on {self.queue!r}")

    def timeout(self, number: int) -> float | None:
        """Return how long to wait, by the number of a try: no randomness that several threads would share."""
        return (None, 0.0, 0.001, 0.02)[number % 4]

    def produce(self, number: int) -> None:
        for item in range(number * ITEMS, (number + 1) * ITEMS):
            tries = item
            while not self.put(item, tries):
                tries += 1

    def put(self, item: int, tries: int) -> bool:
        """Put an item, all or nothing."""
        self.on_the_way.add(item)
        try:
            self.queue.put(item, timeout=self.timeout(tries))
        except (Full, dhaga.Cancelled) as error:
            self.on_the_way.remove(item)  # a KeyError: it was put all the same
            self.must_be_ours(error)
            return False
        return True

    def consume(self) -> None:
        tries = 0
        while True:
            tries += 1
            try:
                item = self.queue.get(timeout=self.timeout(tries))
            except (Empty, dhaga.Cancelled) as error:
                self.must_be_ours(error)
                continue
            except ShutDown:
                return
            self.on_the_way.remove(item)  # a KeyError: it was taken before
            self.taken.add()
            self.queue.task_done()
            self.attempt.scenario.done()

    def must_be_ours(self, error: BaseException) -> None:
        if isinstance(error, dhaga.Cancelled) and error.reason != BY_US:
            raise error
