"""The primitives between OS threads, used by a crowd: see ``tests/kit/crowd.py``.

Nothing may be lost, doubled or late for ever. Here each scenario makes at most about 2,000 operations. ``make stress``
repeats the scenarios, each time with another seed, until they have made 10 million.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue
from dhaga.threading import Barrier, BoundedSemaphore, BrokenBarrierError, Condition, Event, Lock, RLock, Semaphore
from tests.kit.crowd import SWITCH_INTERVALS, WORKERS, Crowd, Worker

slow = pytest.mark.share(0.2)


def acquired(lock: Any, timeout: float | None) -> bool:
    return bool(lock.acquire(timeout=-1 if timeout is None else timeout))


# ---- locks, semaphores, conditions


class Tally:
    """A count that is wrong if two workers add to it at once: it may let others run between its read and its write."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, me: Worker) -> None:
        seen = self.count
        me.pause()
        self.count = seen + 1


def test_a_lock_has_one_holder(crowd: Crowd) -> None:
    lock, tally = Lock(), Tally()

    def work(me: Worker) -> None:
        for one in me.tries(2):
            with one:
                if acquired(lock, me.timeout()):
                    try:
                        tally.add(me)
                        times[me.number] += 1
                    finally:
                        lock.release()

    times = [0] * WORKERS
    crowd.run(work, cancel=False)
    assert tally.count == sum(times) and all(times)
    assert not lock.locked() and not lock._waiters.parked()


def test_a_lock_is_lost_by_no_cancel(crowd: Crowd) -> None:
    lock = Lock()
    inside, most = 0, 0

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(2):
            with one:
                if acquired(lock, me.timeout()):
                    try:
                        inside += 1
                        most = max(most, inside)
                        me.pause()
                    finally:
                        inside -= 1
                        lock.release()

    crowd.run(work)
    assert (inside, most, lock.locked(), lock._waiters.parked()) == (0, 1, False, 0)


def test_an_rlock_has_one_holder_however_deep(crowd: Crowd) -> None:
    lock = RLock()
    inside, most = 0, 0

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(6):
            with one, lock:
                inside += 1
                try:
                    most = max(most, inside)
                    me.pause()
                    with lock:
                        assert acquired(lock, me.timeout())
                        lock.release()
                finally:
                    inside -= 1

    crowd.run(work)
    assert (inside, most, lock.locked(), lock._recursion_count(), lock._waiters.parked()) == (0, 1, False, 0, 0)


@pytest.mark.parametrize("kind", [Semaphore, BoundedSemaphore])
def test_a_semaphore_gives_no_permit_twice(crowd: Crowd, kind: type[Semaphore]) -> None:
    semaphore = kind(3)
    inside, most = 0, 0
    counting = threading.Lock()

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(2):
            with one:
                if semaphore.acquire(timeout=me.timeout()):
                    try:
                        with counting:
                            inside += 1
                            most = max(most, inside)
                        me.pause()
                    finally:
                        with counting:
                            inside -= 1
                        semaphore.release()

    crowd.run(work)
    assert inside == 0 and most <= 3
    assert [semaphore.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]


def test_a_condition_loses_no_notify(crowd: Crowd) -> None:
    """Takers get all that is put: a notify swallowed by a timeout or a cancel would hang a wait without a timeout."""
    changed = Condition()
    items: list[int] = []
    put = taken = 0

    def give(me: Worker) -> None:
        nonlocal put
        for one in me.tries(1):
            with one:
                with changed:
                    items.append(put)
                    put += 1
                    changed.notify()
                me.pause()

    def take(me: Worker) -> None:
        nonlocal taken
        while not (finished and taken == put):
            with me.one_try(), changed:
                if changed.wait_for(lambda: items or finished, me.timeout()) and items:
                    items.pop()
                    taken += 1
                    me.operations += 3

    givers, finished = WORKERS // 4, False

    def last_one_ends(me: Worker) -> None:
        give(me)
        me.insist(end)

    def end() -> None:
        nonlocal givers, finished
        with changed:
            givers -= 1
            if not givers:
                finished = True
                changed.notify_all()

    crowd.run(last_one_ends, take, take, take)
    assert (taken, items, changed._waiters.parked()) == (put, [], 0)


@slow
def test_each_notify_wakes_one(crowd: Crowd) -> None:
    """The number of waits that return is the number of waiters that were notified: not one more, not one less."""
    changed = Condition(Lock())
    waiting = notified = woken = 0
    working = WORKERS - 2

    def wait(me: Worker) -> None:
        nonlocal waiting, woken
        for _ in range(me.times(1)):
            with changed:
                waiting += 1
                assert changed.wait()
                woken += 1
                assert woken <= notified
            me.operations += 1
        leave()

    def leave() -> None:
        nonlocal working
        with changed:
            working -= 1

    def notify(me: Worker) -> None:
        nonlocal waiting, notified
        while working:
            with changed:
                count = min(waiting, me.random.randrange(1, 4))
                waiting -= count
                notified += count
                if count:
                    changed.notify(count)
                    me.operations += count
            me.pause()
            if not count:
                dhaga.sleep(0.0002)

    crowd.run(notify, *[wait] * (WORKERS // 2 - 1), cancel=False)
    assert (waiting, woken, changed._waiters.parked()) == (0, notified, 0)


def test_a_condition_on_a_foreign_lock_loses_no_notify(crowd: Crowd) -> None:
    class Foreign:
        """A lock of another kind."""

        def __init__(self) -> None:
            self.lock = Lock()
            self.acquire, self.release = self.lock.acquire, self.lock.release

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    changed = Condition(Foreign())
    tokens = taken = 0

    def work(me: Worker) -> None:
        nonlocal tokens, taken
        given = got = 0
        while got < me.times(3):
            with me.one_try(), changed:
                if given == got:
                    tokens += 1
                    given += 1
                    changed.notify()
            with me.one_try(), changed:
                if given > got and changed.wait_for(lambda: tokens, me.timeout()):  # noqa: B023
                    tokens -= 1
                    got += 1
                    taken += 1
                    me.operations += 3

    crowd.run(work)
    assert (tokens, taken, len(changed._gates)) == (0, sum(worker.times(3) for worker in crowd.workers), 0)


# ---- events


def test_an_event_releases_a_waiter_once_a_set(crowd: Crowd) -> None:
    """Pairs take turns over two events: a set that wakes a waiter twice, or never, breaks the turns."""
    half = WORKERS // 2
    pairs = [(Event(), Event()) for _ in range(half)]
    turns = [[0, 0] for _ in pairs]

    def work(me: Worker) -> None:
        pair, side = me.number % half, me.number // half
        mine, other = pairs[pair][side], pairs[pair][1 - side]
        for _ in range(me.times(3)):
            if not side:
                turns[pair][side] += 1
                other.set()
            while not mine.wait(me.timeout()):
                pass
            mine.clear()
            assert turns[pair][1 - side] == turns[pair][side] + side
            if side:
                turns[pair][side] += 1
                other.set()
            me.operations += 3

    crowd.run(work, cancel=False)
    assert turns == [[crowd.workers[0].times(3)] * 2] * half


def test_one_set_releases_all(crowd: Crowd) -> None:
    """A leader opens one gate after the other; everybody passes each once."""
    gates = [Event() for _ in range(crowd.workers[0].times(2) + 1)]
    passed: list[int] = []
    count = SimpleQueue[int]()

    def follow(me: Worker) -> None:
        for number, gate in enumerate(gates):
            while True:
                with me.one_try():
                    if gate.wait(me.timeout()):
                        break
            count.put(number)
            me.operations += 2

    def lead(me: Worker) -> None:
        for gate in gates:
            gate.set()
            me.operations += 1
            for _ in range(WORKERS - 1):
                me.insist(lambda: passed.append(count.get()))
                me.operations += 1

    crowd.run(lead, *[follow] * (WORKERS - 1))
    assert passed == [number for number in range(len(gates)) for _ in range(WORKERS - 1)]


# ---- queues

QUEUES: list[Callable[[], Any]] = [
    Queue,
    lambda: Queue(1),
    lambda: Queue(7),
    LifoQueue,
    lambda: LifoQueue(3),
    PriorityQueue,
    lambda: PriorityQueue(3),
    SimpleQueue,
]


@pytest.mark.parametrize("make", QUEUES, ids=lambda make: f"{type(make()).__name__}({getattr(make(), 'maxsize', 0)})")
def test_a_queue_gives_each_item_once_and_in_order(crowd: Crowd, make: Callable[[], Any]) -> None:
    """Each getter of a FIFO queue gets the items of each putter in their order."""
    queue = make()
    got: list[tuple[int, int]] = []
    fullest = 0

    def put(me: Worker) -> None:
        nonlocal fullest
        for n in range(me.times(1)):
            while True:
                with me.one_try():
                    try:
                        queue.put((n, me.number), timeout=me.timeout())
                    except Full:
                        continue
                    fullest = max(fullest, queue.qsize())
                    break
            me.operations += 1

    def get(me: Worker) -> None:
        last: dict[int, int] = {}
        while True:
            with me.one_try():
                try:
                    item = queue.get(timeout=me.timeout())
                except Empty:
                    continue
                n, putter = item
                if n < 0:
                    break
                if type(queue) in (Queue, SimpleQueue):
                    assert n > last.get(putter, -1), f"{n} of {putter} after {last[putter]}"
                last[putter] = n
                got.append(item)
                if hasattr(queue, "task_done"):
                    queue.task_done()
                me.operations += 1

    def put_and_end(me: Worker) -> None:
        nonlocal putting
        put(me)
        with changed:
            putting -= 1
            if putting:
                return
        while not queue.empty():
            with me.one_try():
                dhaga.sleep(0.0005)
        for _ in range(half):
            me.insist(queue.put, (-1, -1))

    half = putting = WORKERS // 2
    changed = threading.Lock()
    crowd.run(put_and_end, get)
    assert len(got) == len(set(got)) == half * crowd.workers[0].times(1)
    assert queue.empty() and not queue._getters_.parked()
    if hasattr(queue, "maxsize"):
        assert queue.unfinished_tasks == half and not queue._putters_.parked()
        assert not queue.maxsize or fullest <= queue.maxsize


def test_a_join_returns_when_all_is_done(crowd: Crowd) -> None:
    queue = Queue[int](4)
    done: set[int] = set()

    def produce(me: Worker) -> None:
        for n in range(me.times(1)):
            item = n * WORKERS + me.number
            me.insist(queue.put, item)
            if n % 20 == 0:
                me.insist(queue.join)
                assert item in done
            me.operations += 1

    def get() -> None:
        item = queue.get()
        assert item not in done
        done.add(item)
        queue.task_done()

    def consume(me: Worker) -> None:
        for _ in range(me.times(1)):
            me.insist(get)
            me.operations += 2

    crowd.run(produce, consume)
    assert len(done) == WORKERS // 2 * crowd.workers[0].times(1)
    assert queue.unfinished_tasks == 0 and not queue._joiners_.parked()


@slow
@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("maxsize", [0, 2])
def test_a_shutdown_lets_nobody_wait_and_loses_nothing(crowd: Crowd, maxsize: int, immediate: bool) -> None:
    queues = [Queue[int](maxsize) for _ in range(-(-crowd.operations // 60))]
    put: list[int] = []
    got: list[int] = []
    refused: list[int] = []

    def fill(me: Worker) -> None:
        for number, queue in enumerate(queues):
            with contextlib.suppress(ShutDown):
                for _ in range(20):
                    queue.put(1)
                    put.append(number)
                    me.operations += 1
                    me.pause()
                while not queue.is_shutdown:
                    dhaga.sleep(0.0001)
                queue.put(1)
            refused.append(number)
            me.operations += 1

    def empty(me: Worker) -> None:
        for number, queue in enumerate(queues):
            with contextlib.suppress(ShutDown):
                while True:
                    queue.get()
                    got.append(number)
                    me.operations += 1
            refused.append(number)
            me.operations += 1

    def close(me: Worker) -> None:
        for queue in queues:
            enough = me.random.choice((3, 50, 100, 180))
            while queue.unfinished_tasks < enough:
                dhaga.sleep(0)
            for _ in range(me.random.randrange(20)):
                dhaga.sleep(0)
            queue.shutdown(immediate)
            me.operations += 1

    crowd.run(close, empty, *[fill, empty] * (WORKERS // 2 - 1), cancel=False)
    assert Counter(refused) == dict.fromkeys(range(len(queues)), WORKERS - 1)
    assert all(queue.empty() and not queue._getters_.parked() and not queue._putters_.parked() for queue in queues)
    assert Counter(got) <= Counter(put) if immediate else Counter(got) == Counter(put)


# ---- barriers


@slow
def test_a_barrier_opens_when_all_have_come(crowd: Crowd) -> None:
    rounds = crowd.workers[0].times(1)
    barrier = Barrier(WORKERS, action=lambda: opened.append(barrier.n_waiting))
    opened: list[int] = []
    indices: list[list[int]] = [[] for _ in range(rounds)]

    def work(me: Worker) -> None:
        for n in range(rounds):
            indices[n].append(barrier.wait())
            me.operations += 1
            assert len(opened) in (n + 1, n + 2)

    crowd.run(work, cancel=False)
    assert len(opened) == rounds
    assert [sorted(some) for some in indices] == [[*range(WORKERS)]] * rounds


@slow
def test_a_barrier_breaks_for_all_or_for_none(crowd: Crowd) -> None:
    barriers = [Barrier(WORKERS) for _ in range(crowd.workers[0].times(1))]
    passed, broken, cancelled = Counter[int](), Counter[int](), Counter[int]()
    counting = threading.Lock()

    def work(me: Worker) -> None:
        for n, barrier in enumerate(barriers):
            outcome = passed
            try:
                barrier.wait(me.random.choice((0.0005, 0.01, 1, 1, 1)))
            except BrokenBarrierError:
                outcome = broken
            except dhaga.Cancelled:
                outcome = cancelled
            with counting:
                outcome[n] += 1
            me.operations += 1

    crowd.run(work)
    for n, barrier in enumerate(barriers):
        outcome = passed[n], broken[n], cancelled[n]
        assert sum(outcome) == WORKERS
        assert not (passed[n] and broken[n]), outcome
        assert barrier.broken == bool(broken[n])


# ---- pairs: without a third worker, a wake that is missed once is missed for good


def hold(lock: Any) -> None:
    with lock:
        pass


def put(queue: Any) -> None:
    queue.put(1)


def get(queue: Any) -> None:
    queue.get()


def wait(event: Event) -> None:
    event.wait()
    event.clear()


class Box:
    """A count that is raised and lowered under a condition."""

    def __init__(self) -> None:
        self.changed = Condition(Lock())
        self.count = 0

    def put(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify()

    def get(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.count)
            self.count -= 1


def full(queue: Any) -> Any:
    queue.put(1)
    return queue


Part = Callable[[Any], object]
PAIRS: dict[str, tuple[Callable[[], Any], Part, Part]] = {
    "Lock": (Lock, hold, hold),
    "RLock": (RLock, hold, hold),
    "Semaphore": (Semaphore, hold, hold),
    "BoundedSemaphore": (BoundedSemaphore, hold, hold),
    "Condition": (Box, Box.put, Box.get),
    "Event": (Event, Event.set, wait),
    "Queue": (Queue, put, get),
    "full Queue": (lambda: full(Queue(1)), put, get),
    "full PriorityQueue": (lambda: full(PriorityQueue(1)), put, get),
    "SimpleQueue": (SimpleQueue, put, get),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_two_who_come_at_once_miss_nothing(crowd: Crowd, kind: str) -> None:
    """Each pair meets, each of the two does its part, and they meet again."""
    make, *parts = PAIRS[kind]
    half = WORKERS // 2
    things = [make() for _ in range(half)]
    doors = [(SimpleQueue[int](), SimpleQueue[int]()) for _ in range(half)]

    def work(me: Worker) -> None:
        side, pair = divmod(me.number, half)
        mine, other = doors[pair][side], doors[pair][1 - side]
        for n in range(me.times(3)):
            other.put(n)
            assert mine.get() == n
            for _ in range(me.random.randrange(400)):
                pass
            parts[side](things[pair])
            me.operations += 3

    crowd.run(work, cancel=False, interval=SWITCH_INTERVALS[0])
    assert all(door.empty() for pair in doors for door in pair)


# ---- all of them at once

TOKENS = 9


class Permits:
    """A semaphore, as a place for tokens: a list beside it holds them."""

    def __init__(self, kind: type[Semaphore]) -> None:
        self.semaphore = kind(TOKENS)
        self.tokens: list[int] = []
        for _ in range(TOKENS):
            self.semaphore.acquire()

    def put(self, token: int, timeout: float) -> None:
        self.tokens.append(token)
        self.semaphore.release()

    def get(self, timeout: float) -> int:
        if not self.semaphore.acquire(timeout=timeout):
            raise Empty
        return self.tokens.pop()


class Shelf:
    """A list under a condition, as a place for tokens."""

    def __init__(self, lock: Any) -> None:
        self.changed = Condition(lock)
        self.tokens: list[int] = []

    def put(self, token: int, timeout: float) -> None:
        if not acquired(self.changed, timeout):
            raise Full
        try:
            self.tokens.append(token)
            self.changed.notify()
        finally:
            self.changed.release()

    def get(self, timeout: float) -> int:
        with self.changed:
            if not self.changed.wait_for(lambda: self.tokens, timeout):
                raise Empty
            return self.tokens.pop()


class Places:
    """Everything a token can be put into."""

    def __init__(self) -> None:
        self.all: list[Any] = [
            *(make() for make in QUEUES),
            *map(Permits, (Semaphore, BoundedSemaphore)),
            *(Shelf(make()) for make in (Lock, RLock)),
        ]

    def put(self, place: Any, token: int, timeout: float) -> bool:
        if isinstance(place, (Permits, Shelf)):
            place.put(token, timeout)
        else:
            place.put(token, timeout=timeout)
        return True

    def left(self) -> list[int]:
        """Remove all tokens and return them in order."""
        found = []
        for place in self.all:
            with contextlib.suppress(Empty):
                while True:
                    found.append(place.get(timeout=0))
        return sorted(found)


def test_tokens_that_go_from_place_to_place_are_neither_lost_nor_doubled(crowd: Crowd) -> None:
    """Each worker parks on places of all kinds: a wake that is late for one park must not reach the next one.

    In the end all tokens are there, each has moved, and as many moves were counted under the lock as workers noted.
    """
    places = Places()
    moves = [[0] * TOKENS for _ in range(WORKERS)]
    count, guard = 0, Lock()
    for token in range(TOKENS):
        places.put(places.all[0], token, 0)

    def work(me: Worker) -> None:
        for _ in range(me.times(4)):
            token = take(me)
            note(me, token)
            while not give(me, token):
                pass
            me.operations += 4

    def take(me: Worker) -> int:
        while True:
            with me.one_try(), contextlib.suppress(Empty):
                return int(me.random.choice(places.all).get(timeout=me.short_timeout()))

    def note(me: Worker, token: int) -> None:
        def add() -> None:
            nonlocal count
            with guard:
                count += 1

        me.insist(add)
        moves[me.number][token] += 1

    def give(me: Worker, token: int) -> bool:
        with me.one_try(), contextlib.suppress(Full):
            return places.put(me.random.choice(places.all), token, me.short_timeout())
        return False

    crowd.run(work)
    assert places.left() == [*range(TOKENS)]
    assert count == sum(map(sum, moves)) and all(map(sum, zip(*moves, strict=True)))
