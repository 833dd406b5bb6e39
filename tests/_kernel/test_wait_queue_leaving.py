"""Tickets of wait queues and of joiners: to leave is as cheap as to come, and takes nothing from those that stay."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga._kernel.interpreter.requirements import FREE_THREADED
from dhaga._kernel.wait.wait_queue import COMPACT_ABOVE, WaitQueue
from dhaga.futures import Future
from dhaga.queue import Queue, SimpleQueue
from dhaga.socket import socketpair
from dhaga.testing import settle, virtual_clock
from dhaga.threading import Condition, Event, Lock, Semaphore

MANY = 100_000
in_order = pytest.mark.skipif("config.getoption('--dhaga-seed') is not None", reason="the run queue is shuffled")


class CountingQueue(WaitQueue):
    """A wait queue that counts the tickets that it looks at to drop void ones."""

    __slots__ = ("looked_at",)

    def drop_void(self) -> None:
        self.looked_at = getattr(self, "looked_at", 0) + len(self)
        super().drop_void()


class CountingList(list[Any]):
    """A list of joiners that counts the copied joiners when those that left are dropped."""

    looked_at = 0

    def __setitem__(self, index: Any, value: Any) -> None:
        self.looked_at += len(self)
        super().__setitem__(index, value)


def leave(place: Any, tickets: list[list[Any]]) -> None:
    """Leave in random order, as timeouts do: the place counts one, then the waiter is taken out of its ticket."""
    random.Random(0).shuffle(tickets)
    for ticket in tickets:
        place._remove(ticket[0])
        del ticket[0]


def test_100_000_leave_a_wait_queue_in_linear_work() -> None:
    queue = CountingQueue(object, "x")
    tickets: list[Any] = [[object()] for _ in range(MANY)]
    queue.extend(tickets)
    stay = tickets[::1000]
    leave(queue, [ticket for n, ticket in enumerate(tickets) if n % 1000])
    assert queue.looked_at <= 4 * MANY
    assert [ticket for ticket in queue if ticket] == stay and len(queue) <= 2 * len(stay) + COMPACT_ABOVE + 1


@pytest.mark.parametrize("make", [lambda: dhaga.spawn(int), Future])
def test_100_000_leave_a_join_in_linear_work(make: Callable[[], Any]) -> None:
    with virtual_clock():
        place: Any = make()
        tickets: list[Any] = [[object()] for _ in range(MANY)]
        place._joiners = joiners = CountingList(tickets)
        leave(place, tickets)
        assert joiners.looked_at <= 4 * MANY and len(joiners) <= COMPACT_ABOVE + 1
        settle()


@in_order
@pytest.mark.parametrize("end", ["cancel", "timeout"])
def test_those_that_stay_are_served_first_come_first_served(end: str) -> None:
    """Whichever of a thousand leave, the others are served in the order in which they came."""
    random_, count = random.Random(1), 1000
    leavers = set(random_.sample(range(count), 900))
    with virtual_clock():
        lock, semaphore, simple, queue, full = Lock(), Semaphore(0), SimpleQueue[int](), Queue[int](), Queue[int](1)
        one, future, event, condition = dhaga.spawn(dhaga.park, "x"), Future[int](), Event(), Condition()
        lock.acquire()
        full.put(-1)

        def is_notified(timeout: float | None) -> bool:
            with condition:
                return condition.wait(timeout)

        def joins(timeout: float | None) -> bool:
            one.join(timeout)
            return not one.is_alive()

        def puts(timeout: float | None) -> bool:
            full.put(0, timeout=timeout)
            return True

        def has_result(timeout: float | None) -> bool:
            return future.result(timeout) == 0

        ways: dict[str, tuple[Callable[[float | None], Any], Callable[[], object]]] = {
            "lock": (lambda t: lock.acquire(timeout=-1 if t is None else t), lock.release),
            "semaphore": (lambda t: semaphore.acquire(timeout=t), semaphore.release),
            "condition": (is_notified, lambda: dhaga.spawn(lambda: condition.__enter__() and condition.notify())),
            "event": (event.wait, event.set),
            "simple queue": (lambda t: simple.get(timeout=t) + 1, lambda: simple.put(0)),
            "queue.get": (lambda t: queue.get(timeout=t) + 1, lambda: queue.put(0)),
            "queue.put": (puts, full.get),
            "join": (joins, one.wake),
            "future": (has_result, lambda: future.set_result(0)),
        }
        for name, (wait, serve) in ways.items():
            served: list[int] = []

            def stands(
                n: int, wait: Callable[[float | None], Any] = wait, served: list[int] = served, name: str = name
            ) -> None:
                timeout = 1 + random_.random() if end == "timeout" and n in leavers else None
                try:
                    if wait(timeout):
                        served.append(n)
                except (dhaga.Cancelled, TimeoutError, dhaga.queue.Empty, dhaga.queue.Full):
                    pass
                if name == "lock" and n not in leavers:
                    lock.release()

            dhagas = [dhaga.spawn(stands, n) for n in range(count)]
            settle()
            if end == "cancel":
                for n in random_.sample(sorted(leavers), len(leavers)):
                    dhagas[n].cancel()
            dhaga.sleep(3)
            assert sum(d.is_alive() for d in dhagas) == 100, name
            if name == "condition":
                with condition:
                    condition.notify_all()
            elif name in ("event", "join", "future", "lock"):
                serve()
            else:
                for _ in range(100):
                    serve()
            for d in dhagas:
                d.join()
            assert served == sorted(set(range(count)) - leavers), name


def test_void_tickets_keep_their_order_while_other_threads_come_and_take() -> None:
    """A rotation step by step would put some that come meanwhile before those that came first."""
    queue = WaitQueue(object, "x")
    taken: list[Any] = []
    # Without the interpreter lock, each step of a rotation takes a guard, and the others wait for its end.
    done, count = threading.Event(), 1_000 if FREE_THREADED else 20_000

    def comes() -> None:
        for n in range(count):
            queue.append([] if n % 3 else [n])  # type: ignore[list-item]
        done.set()

    def drops() -> None:
        while not done.is_set():
            queue.drop_void()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=code) for code in (comes, drops, drops)]
        for thread in threads:
            thread.start()
        while not done.is_set() or queue:
            waiter = queue.take_first()
            if waiter is not None:
                taken.append(waiter)
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert taken == [n for n in range(count) if n % 3 == 0]


class Raced(WaitQueue):
    """A queue from which wakers take ``taken`` before the nth step of a rotation, as without the interpreter lock."""

    __slots__ = ("nth", "steps", "taken")
    nth: int
    steps: int
    taken: int

    def popleft(self) -> Any:
        self.steps += 1
        assert self.steps < 100, "the rotation never ends"
        if self.steps == self.nth:
            for _ in range(self.taken):
                self and super().popleft()
        return super().popleft()


@pytest.mark.parametrize("taken", [1, 2, 9])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_dropping_void_tickets_ends_whatever_wakers_take_meanwhile(count: int, taken: int) -> None:
    for nth in range(1, count + 3):
        queue = Raced(object, "x")
        queue.nth, queue.steps, queue.taken = nth, 0, taken
        queue.extend([object()] for _ in range(count))  # type: ignore[list-item]
        queue.drop_void()
        # The void ticket of the rotation is behind all that have not been turned yet; it may be one of those taken.
        lost = min(taken, count + 1) - (taken > count + 1 - nth) if nth <= count + 1 else 0
        assert len(queue) == count - lost


class Watched(WaitQueue):
    """A queue that notes how many tickets are left at each step of a rotation."""

    __slots__ = ("left",)
    left: list[int]

    def popleft(self) -> Any:
        ticket = super().popleft()
        self.left.append(len(self))
        return ticket


def test_a_queue_with_a_waiter_never_looks_empty_while_void_tickets_are_dropped() -> None:
    """Without the interpreter lock a release would see an empty queue, and leave the lock free beside the waiter."""
    for tickets in ([[1]], [[1], []], [[], [1]], [[], [], [1], []]):
        queue = Watched(object, "x")
        queue.left = []
        queue.extend(tickets)
        queue.drop_void()
        assert list(queue) == [[1]] and queue.left and 0 not in queue.left


class NotifiedMeanwhile(WaitQueue):
    """A condition's queue in which a notify, as if by another OS thread, comes while a waiter is about to leave."""

    notify: Callable[[], None]

    def _remove(self, waiter: Any) -> None:
        super()._remove(waiter)
        self.notify()


@pytest.mark.parametrize("end", ["cancel", "timeout", "scope"])
def test_a_notify_that_comes_while_a_waiter_is_about_to_leave_wins(end: str) -> None:
    """It parks the waiter anew, for the lock: the timeout was for the park before, and must not strike this one."""
    lock = Lock()
    condition = Condition(lock)
    condition._waiters = queue = NotifiedMeanwhile(condition, "condition.wait")

    def notify() -> None:
        assert lock.acquire(blocking=False)
        condition.notify()

    def waits() -> bool:
        with condition:
            notified = condition.wait(5 if end == "timeout" else None)
        if end != "timeout":
            with pytest.raises(dhaga.Cancelled):
                dhaga.sleep(0)
        return notified

    with virtual_clock():
        queue.notify = notify
        with dhaga.Scope() as scope:
            d = scope.spawn(waits)
            settle()
            with dhaga.shield():
                if end != "timeout":
                    (d if end == "cancel" else scope).cancel()
                dhaga.sleep(10)
                assert (d.reason, d.state) == ("lock.acquire", "WAITING")
                lock.release()
        assert d.result() is True and not lock.locked()


def test_a_wake_that_comes_while_its_waiter_parks_anew_is_none() -> None:
    """The waiter was woken, ran and parked for a lock: a wake that has looked before must not release it from there."""
    with virtual_clock():

        class ParksAnew:
            @property
            def for_all(self) -> bool:
                del d.parked[0]
                d.wait_target, d.parked = queue, [d]
                return True

        queue = WaitQueue(object, "lock.acquire")
        d = dhaga.spawn(dhaga.park, "x")
        settle()
        d.wait_target = ParksAnew()
        assert d.wake("too late") is False and d.parked == [d]
        assert d.wake_parked() and d.result() is None


def test_a_primitive_with_timeouts_that_always_expire_stays_small() -> None:
    with virtual_clock():
        event, queue, future = Event(), Queue[int](), Future[int]()
        one = dhaga.spawn(dhaga.park, "x")
        for _ in range(1000):
            assert not event.wait(1)
            one.join(1)
            with pytest.raises(dhaga.queue.Empty):
                queue.get(timeout=1)
            with pytest.raises(TimeoutError):
                future.result(1)
        places: list[Any] = [event._waiters_, queue._getters_, one._joiners, future._joiners]
        assert max(map(len, places)) <= COMPACT_ABOVE + 1
        one.wake()
        one.join()


def test_many_readers_of_a_socket_leave_and_the_others_are_woken_in_order() -> None:
    ours, theirs = socketpair()
    with virtual_clock(), ours, theirs:
        got: list[int] = []

        def reads(n: int) -> None:
            ours.recv(1)
            got.append(n)

        dhagas = [dhaga.spawn(reads, n) for n in range(100)]
        settle()
        for n, d in enumerate(dhagas):
            if n % 10:
                d.cancel()
        settle()
        watcher: Any = ours.watchers_.of(dhaga.current())
        assert len(watcher.readers) == 10
        theirs.send(b"x" * 10)
        for d in dhagas:
            d.join()
        assert sorted(got) == list(range(0, 100, 10)) and not watcher.readers
