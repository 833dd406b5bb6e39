"""The primitives between OS threads: dhagas of three schedulers and three plain threads, random timeouts and cancels.

Nothing may be lost, doubled or late for ever. The seed of a run is printed; ``--dhaga-seed`` repeats its choices, but
not the moments at which the OS switches threads.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dhaga
from dhaga import testing
from dhaga.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue
from dhaga.threading import Barrier, BoundedSemaphore, BrokenBarrierError, Condition, Event, Lock, RLock, Semaphore

SCHEDULERS = THREADS = 3
DHAGAS = 3
"""To a scheduler."""

DEADLINE = 30
"""Seconds after which a run counts as hung."""

Work = Callable[["Worker"], None]


class Worker:
    """One of the crowd: its number, its random choices, and whether it can be cancelled."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.random = random.Random(seed * 1000 + number)
        self.cancels = 0

    def timeout(self) -> float | None:
        return self.random.choice((None, None, 0, 0.00001, 0.0001, 0.002))

    def insist(self, fn: Callable[..., object], *args: Any) -> None:
        """Call something that is all or nothing until no cancel comes in between."""
        done = False
        while not done:
            with self.one_try():
                fn(*args)
                done = True

    def tries(self, count: int) -> Iterator[Any]:
        """Give a context for each try, which lets a cancel end that try alone."""
        for _ in range(count):
            yield self.one_try()

    @contextlib.contextmanager
    def one_try(self) -> Iterator[None]:
        try:
            yield
        except dhaga.Cancelled:
            self.cancels += 1

    def pause(self) -> None:
        """Let others in, sometimes."""
        if self.random.random() < 0.2:
            dhaga.sleep(0)


class Crowd:
    """Run work in dhagas of several schedulers and in plain threads at once, cancelling dhagas at random moments."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.errors: list[BaseException] = []
        self.over = False
        self.workers: list[Worker] = []

    def run(self, *works: Work, cancel: bool = True) -> None:
        """Have worker n do ``works[n % len(works)]``."""
        former = sys.getswitchinterval()
        sys.setswitchinterval(0.00002)
        try:
            self.run_all(works, cancel)
        finally:
            sys.setswitchinterval(former)
        if self.errors:
            raise self.errors[0]

    def run_all(self, works: tuple[Work, ...], cancel: bool) -> None:
        with contextlib.ExitStack() as stack:
            schedulers = [stack.enter_context(dhaga.Scheduler(f"s{n}")) for n in range(SCHEDULERS)]
            todo = [self.job(n, works) for n in range(SCHEDULERS * DHAGAS + THREADS)]
            dhagas = [schedulers[n % SCHEDULERS].spawn(todo.pop(), name=f"d{n}") for n in range(SCHEDULERS * DHAGAS)]
            threads = [threading.Thread(target=job, name=f"t{n}", daemon=True) for n, job in enumerate(todo)]
            canceller = threading.Thread(target=self.cancel_some, args=(dhagas,), daemon=True)
            for thread in threads:
                thread.start()
            if cancel:
                canceller.start()
            deadline = time.monotonic() + DEADLINE
            for one in [*dhagas, *threads]:
                one.join(max(0, deadline - time.monotonic()))
            if hung := [one for one in [*dhagas, *threads] if one.is_alive()]:
                faulthandler.dump_traceback(all_threads=True)
                print(
                    *(repr(s) for s in schedulers),
                    *(f"{d!r} on {d.waits_on!r}" for d in dhagas),
                    sep="\n",
                    file=sys.stderr,
                )
                stack.pop_all()
                pytest.exit(f"hung (seed {self.seed}): {hung}", 3)
            self.over = True
            if cancel:
                canceller.join()

    def job(self, number: int, works: tuple[Work, ...]) -> Callable[[], None]:
        worker = Worker(number, self.seed)
        self.workers.append(worker)

        def job() -> None:
            try:
                works[number % len(works)](worker)
            except dhaga.Cancelled:
                pass
            except BaseException as error:
                self.errors.append(error)

        return job

    def cancel_some(self, dhagas: list[dhaga.Dhaga]) -> None:
        choose = random.Random(self.seed)
        while not self.over:
            choose.choice(dhagas).cancel("by the crowd")
            time.sleep(choose.random() * 0.002)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    seed = testing.seed if testing.seed is not None else random.randrange(1_000_000)
    print(f"seed {seed}")
    yield Crowd(seed)


def test_a_lock_has_one_holder(crowd: Crowd) -> None:
    lock = Lock()
    inside, most, times = 0, 0, Counter[int]()

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(1500):
            with one:
                timeout = me.timeout()
                if lock.acquire(timeout=-1 if timeout is None else timeout):
                    try:
                        inside += 1
                        most = max(most, inside)
                        me.pause()
                        times[me.number] += 1
                    finally:
                        inside -= 1
                        lock.release()

    crowd.run(work)
    assert (inside, most, lock.locked()) == (0, 1, False)
    assert len(times) == len(crowd.workers)


def test_an_rlock_has_one_holder_however_deep(crowd: Crowd) -> None:
    lock = RLock()
    inside, most = 0, 0

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(1000):
            with one, lock:
                inside += 1
                try:
                    most = max(most, inside)
                    me.pause()
                    timeout = me.timeout()
                    with lock:
                        assert lock.acquire(timeout=-1 if timeout is None else timeout)
                        lock.release()
                finally:
                    inside -= 1

    crowd.run(work)
    assert (inside, most, lock.locked(), lock._recursion_count()) == (0, 1, False, 0)


@pytest.mark.parametrize("kind", [Semaphore, BoundedSemaphore])
def test_a_semaphore_gives_no_permit_twice(crowd: Crowd, kind: type[Semaphore]) -> None:
    semaphore = kind(3)
    inside, most = 0, 0
    counting = threading.Lock()

    def work(me: Worker) -> None:
        nonlocal inside, most
        for one in me.tries(1500):
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
    assert (inside, most) == (0, 3)
    assert [semaphore.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]


def test_a_condition_loses_no_notify(crowd: Crowd) -> None:
    """Takers without a timeout get all that is put: a notify swallowed by a timeout or a cancel would hang them."""
    changed = Condition()
    items: list[int] = []
    put = taken = 0

    def give(me: Worker) -> None:
        nonlocal put
        for one in me.tries(1000):
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

    givers, finished = SCHEDULERS, False

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
    assert (taken, items, len(changed.waiters)) == (put, [], 0)


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
        while got < 300:
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

    crowd.run(work)
    assert (tokens, taken, len(changed.gates)) == (0, 300 * len(crowd.workers), 0)


def test_an_event_releases_a_waiter_once_a_set(crowd: Crowd) -> None:
    """Pairs take turns over two events: a set that wakes a waiter twice, or never, breaks the turns."""
    pairs = [(Event(), Event()) for _ in range(6)]
    turns = [[0, 0] for _ in pairs]
    count = 1500

    def work(me: Worker) -> None:
        pair, side = me.number % 6, me.number // 6
        mine, other = pairs[pair][side], pairs[pair][1 - side]
        for _ in range(count):
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

    crowd.run(work, cancel=False)
    assert turns == [[count, count]] * 6


def test_one_set_releases_all(crowd: Crowd) -> None:
    """A leader opens one gate after the other; everybody passes each once."""
    gates = [Event() for _ in range(300)]
    passed: list[int] = []
    count = SimpleQueue[int]()

    def follow(me: Worker) -> None:
        for number, gate in enumerate(gates):
            while True:
                with me.one_try():
                    if gate.wait(me.timeout()):
                        break
            count.put(number)

    def lead(me: Worker) -> None:
        others = SCHEDULERS * DHAGAS + THREADS - 1
        for gate in gates:
            gate.set()
            for _ in range(others):
                me.insist(lambda: passed.append(count.get()))

    crowd.run(lead, *[follow] * 11)
    assert passed == [number for number in range(len(gates)) for _ in range(11)]


@pytest.mark.parametrize(
    "queue",
    [Queue(), Queue(1), Queue(7), LifoQueue(), LifoQueue(3), PriorityQueue(), PriorityQueue(3), SimpleQueue()],
    ids=lambda q: f"{type(q).__name__}({getattr(q, 'maxsize', 0)})",
)
def test_a_queue_gives_each_item_once_and_in_order(crowd: Crowd, queue: Any) -> None:
    """Of a FIFO queue each getter gets the items of each putter in their order."""
    per_putter = 2500
    got: list[tuple[int, int]] = []
    fullest = 0

    def put(me: Worker) -> None:
        nonlocal fullest
        for n in range(per_putter):
            while True:
                with me.one_try():
                    try:
                        queue.put((n, me.number), timeout=me.timeout())
                    except Full:
                        continue
                    fullest = max(fullest, queue.qsize())
                    break

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
        for _ in range(6):
            me.insist(queue.put, (-1, -1))

    putting, changed = 6, threading.Lock()
    crowd.run(put_and_end, get)
    assert len(got) == len(set(got)) == 6 * per_putter
    assert queue.empty()
    if hasattr(queue, "maxsize"):
        assert queue.unfinished_tasks == 6
        assert not queue.maxsize or fullest <= queue.maxsize


def test_a_join_returns_when_all_is_done(crowd: Crowd) -> None:
    queue = Queue[int](4)
    done: list[int] = []
    count = 600

    def produce(me: Worker) -> None:
        for n in range(count):
            item = me.number * count + n
            me.insist(queue.put, item)
            if n % 20 == 0:
                me.insist(queue.join)
                assert item in done

    def get() -> None:
        done.append(queue.get())
        queue.task_done()

    def consume(me: Worker) -> None:
        for _ in range(count):
            me.insist(get)

    crowd.run(produce, consume)
    assert len(done) == len(set(done)) == 6 * count
    assert queue.unfinished_tasks == 0


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("maxsize", [0, 2])
def test_a_shutdown_lets_nobody_wait_and_loses_nothing(crowd: Crowd, maxsize: int, immediate: bool) -> None:
    queues = [Queue[int](maxsize) for _ in range(60)]
    put: list[int] = []
    got: list[int] = []
    refused: list[int] = []

    def fill(me: Worker) -> None:
        for number, queue in enumerate(queues):
            with contextlib.suppress(ShutDown):
                while True:
                    queue.put(1)
                    put.append(number)
                    me.pause()
            refused.append(number)

    def empty(me: Worker) -> None:
        for number, queue in enumerate(queues):
            with contextlib.suppress(ShutDown):
                while True:
                    queue.get()
                    got.append(number)
            refused.append(number)

    def close(me: Worker) -> None:
        for queue in queues:
            while queue.unfinished_tasks < 3:
                dhaga.sleep(0)
            for _ in range(me.random.randrange(20)):
                dhaga.sleep(0)
            queue.shutdown(immediate)

    # the one that closes is a plain thread, as no dhaga pauses between gets
    crowd.run(close, fill, empty, fill, empty, fill, empty, fill, empty, fill, empty, empty, cancel=False)
    assert Counter(refused) == dict.fromkeys(range(len(queues)), 11)
    assert all(queue.empty() for queue in queues)
    assert Counter(got) <= Counter(put) if immediate else Counter(got) == Counter(put)


def test_a_barrier_opens_when_all_have_come(crowd: Crowd) -> None:
    parties = SCHEDULERS * DHAGAS + THREADS
    rounds = 150
    barrier = Barrier(parties, action=lambda: opened.append(barrier.n_waiting))
    opened: list[int] = []
    indices: list[list[int]] = [[] for _ in range(rounds)]

    def work(me: Worker) -> None:
        for n in range(rounds):
            indices[n].append(barrier.wait())
            assert len(opened) in (n + 1, n + 2)

    crowd.run(work, cancel=False)
    assert len(opened) == rounds
    assert [sorted(some) for some in indices] == [[*range(parties)]] * rounds


def test_a_barrier_breaks_for_all_or_for_none(crowd: Crowd) -> None:
    parties = SCHEDULERS * DHAGAS + THREADS
    barriers = [Barrier(parties) for _ in range(100)]
    passed: list[int] = []
    broken: list[int] = []
    cancelled: list[int] = []

    def work(me: Worker) -> None:
        for n, barrier in enumerate(barriers):
            try:
                barrier.wait(me.random.choice((0.0005, 0.01, 1, 1, 1)))
                passed.append(n)
            except BrokenBarrierError:
                broken.append(n)
            except dhaga.Cancelled:
                cancelled.append(n)

    crowd.run(work)
    for n, barrier in enumerate(barriers):
        outcome = passed.count(n), broken.count(n), cancelled.count(n)
        assert sum(outcome) == parties
        assert not (passed.count(n) and broken.count(n)), outcome
        assert barrier.broken == bool(broken.count(n))
