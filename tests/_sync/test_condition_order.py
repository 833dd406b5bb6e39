"""Condition: first come, first served, also between those that wait at a condition and those that wait for its lock."""

from __future__ import annotations

import random
import threading
from collections import deque

import pytest

import dhaga
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Condition, Lock, RLock
from tests.kit.parking import parked

OWNED = [Lock, RLock]


class Service:
    """A lock with two conditions, and the order in which callers came and were served."""

    def __init__(self, kind: type[Lock] | type[RLock]) -> None:
        self.lock = kind()
        self.conditions = [Condition(self.lock), Condition(self.lock)]
        self.served: list[str] = []

    def take(self, name: str) -> None:
        with self.lock:
            self.served.append(name)

    def notify(self) -> None:
        with self.lock:
            self.conditions[0].notify()

    def wait(self, name: str, timeout: float | None = None, at: int = 0) -> None:
        with self.lock:
            try:
                self.conditions[at].wait(timeout)
            finally:
                self.served.append(name)


@pytest.mark.parametrize("kind", OWNED)
def test_a_notified_waiter_comes_before_those_who_came_for_the_lock_later(kind: type[Lock] | type[RLock]) -> None:
    with virtual_clock():
        service = Service(kind)
        waiting = [parked(service.wait, f"waiter {n}", None, n % 2) for n in range(4)]
        with service.lock:
            taking = [parked(service.take, f"newcomer {n}") for n in range(3)]
            for condition in reversed(service.conditions):
                condition.notify_all()
        for d in waiting + taking:
            d.join()
    assert service.served == [*(f"waiter {n}" for n in range(4)), *(f"newcomer {n}" for n in range(3))]


@pytest.mark.parametrize("kind", OWNED)
def test_a_notified_waiter_comes_after_those_who_came_for_the_lock_earlier(kind: type[Lock] | type[RLock]) -> None:
    with virtual_clock():
        service = Service(kind)
        with service.lock:
            ends = parked(service.take, "first")
            waits = parked(service.wait, "second")  # comes for the lock second, and waits at the condition
            takes = [parked(service.take, f"{n}") for n in range(50)]
        notifier = dhaga.spawn(service.notify)  # comes for the lock as the last
        for d in [ends, waits, notifier, *takes]:
            d.join()
    # The fifty came for the lock before the wait at the condition began.
    assert service.served == ["first", *map(str, range(50)), "second"]


@pytest.mark.parametrize("kind", OWNED)
@pytest.mark.parametrize("end", ["timeout", "cancel"])
def test_a_wait_that_ends_without_a_notify_takes_the_lock_by_its_arrival(
    kind: type[Lock] | type[RLock], end: str
) -> None:
    with virtual_clock():
        service = Service(kind)
        waits = parked(service.wait, "waiter", 1 if end == "timeout" else None)
        with service.lock:
            takes = [parked(service.take, f"newcomer {n}") for n in range(3)]
            if end == "timeout":
                dhaga.sleep(2)
            else:
                waits.cancel()
                settle()
        for d in [waits, *takes]:
            d.join()
    assert service.served == ["waiter", *(f"newcomer {n}" for n in range(3))]


@pytest.mark.parametrize("kind", OWNED)
def test_two_that_notify_each_other_do_not_keep_a_third_from_the_lock(kind: type[Lock] | type[RLock]) -> None:
    with virtual_clock():
        service = Service(kind)
        turns = 0

        def play(at: int) -> None:
            nonlocal turns
            with service.lock:
                while "third" not in service.served and turns < 100:
                    turns += 1
                    service.conditions[1 - at].notify()
                    dhaga.sleep(0)  # with the lock held: the third one queues up for it meanwhile
                    service.conditions[at].wait(10)
                service.conditions[1 - at].notify()

        players = [dhaga.spawn(play, at) for at in (0, 1)]
        third = dhaga.spawn(service.take, "third")
        for d in [*players, third]:
            d.join()
    assert turns < 10


@pytest.mark.parametrize("kind", OWNED)
def test_plain_threads_are_served_by_their_arrival_as_well(kind: type[Lock] | type[RLock]) -> None:
    service = Service(kind)
    condition = service.conditions[0]
    threads = []

    def start(target, *args) -> None:
        threads.append(threading.Thread(target=target, args=args))
        threads[-1].start()

    for n in range(3):
        start(service.wait, f"waiter {n}")
        while condition._waiters.parked() <= n:
            dhaga.sleep(0.001)
    with service.lock:
        for n in range(3):
            start(service.take, f"newcomer {n}")
            while service.lock._waiters.parked() <= n:
                dhaga.sleep(0.001)
        condition.notify(3)
    for thread in threads:
        dhaga.offload(thread.join)
    assert service.served == [*(f"waiter {n}" for n in range(3)), *(f"newcomer {n}" for n in range(3))]


class Model:
    """What a lock with one condition promises: waiters by arrival, whichever way they come to wait for the lock."""

    def __init__(self) -> None:
        self.arrivals = 0
        self.of: dict[int, int] = {}
        self.queue: list[int] = []
        self.waiting: deque[int] = deque()

    def arrive(self, who: int) -> None:
        self.arrivals += 1
        self.of[who] = self.arrivals

    def wait_for_lock(self, who: int) -> None:
        self.queue.append(who)
        self.queue.sort(key=self.of.__getitem__)


@pytest.mark.parametrize("kind", OWNED)
@pytest.mark.parametrize("seed", range(20))
def test_any_course_of_waits_notifies_and_timeouts_is_served_by_arrival(
    kind: type[Lock] | type[RLock], seed: int
) -> None:
    drawn = random.Random(seed)
    with virtual_clock():
        service, model = Service(kind), Model()
        condition = service.conditions[0]
        dhagas: dict[int, dhaga.Dhaga] = {}
        expected: list[str] = []
        service.lock.acquire()
        for who in range(60):
            # The main code holds the lock whenever it draws.
            step = drawn.choice(["take", "take", "wait", "notify", "notify_all", "cancel", "release"])
            if step == "take":
                model.arrive(who)
                dhagas[who] = parked(service.take, str(who))
                model.wait_for_lock(who)
            elif step == "wait":
                serve_all(service, model, expected)
                model.arrive(who)
                dhagas[who] = parked(service.wait, str(who))
                service.lock.acquire()
                model.waiting.append(who)
            elif step in ("notify", "notify_all"):
                for _ in range(len(model.waiting) if step == "notify_all" else min(2, len(model.waiting))):
                    model.wait_for_lock(model.waiting.popleft())
                condition.notify(2) if step == "notify" else condition.notify_all()
            elif step == "cancel" and model.waiting:
                gone = drawn.choice(model.waiting)
                model.waiting.remove(gone)
                dhagas[gone].cancel()
                settle()
                model.wait_for_lock(gone)
            elif step == "release":
                serve_all(service, model, expected)
                service.lock.acquire()
        condition.notify_all()
        for who in model.waiting:
            model.wait_for_lock(who)
        serve_all(service, model, expected)
        for d in dhagas.values():
            d.join()
    assert service.served == expected


def serve_all(service: Service, model: Model, expected: list[str]) -> None:
    """Release the lock until all that wait for it were served."""
    expected += map(str, model.queue)
    model.queue.clear()
    service.lock.release()
    settle()


def test_thousands_are_placed_on_either_side_of_a_waiter() -> None:
    """The place is found by bisection, also among tickets of those that have left."""
    with virtual_clock():
        service = Service(Lock)
        service.lock.acquire()
        early = [parked(service.take, f"early {n}") for n in range(1000)]
        service.conditions[0]._waiters.append([])  # a waiter that has left
        arrival = service.lock._waiters.begin_epoch()
        late = [parked(service.take, f"late {n}") for n in range(1000)]
        for gone in [*early[450:550], *late[:300]]:
            gone.cancel()
        settle()
        ticket: list[dhaga.Dhaga] = []
        service.lock._waiters.insert_by_arrival(ticket, arrival)
        place = next(n for n, each in enumerate(service.lock._waiters) if each is ticket)
        before = sum(map(bool, list(service.lock._waiters)[:place]))
        service.lock.release()
        for d in early + late:
            d.join()
    assert before == 900
    assert service.served[:900] == [f"early {n}" for n in [*range(450), *range(550, 1000)]]
