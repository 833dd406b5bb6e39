"""Functions with a compiled twin leak nothing: each way into a wait, through it and out of it, in rounds.

``test_growth.py`` checks registries. This file checks the references that C code counts by hand: after each round the
number of memory blocks, the memory of the process and the references to all objects that outlive an operation are as
after the round before. ``DHAGA_LEAK_OPERATIONS``: the number of operations that all tests make together.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import os
import sys
from array import array
from collections.abc import Callable, Iterator
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dhaga
from dhaga import queue, socket, ssl, testing, threading
from dhaga._kernel import hooks
from dhaga._kernel.run.microthread import Dhaga
from dhaga._kernel.wait.wait_queue import WaitQueue
from tests.kit.tls import tls

OPERATIONS = int(os.environ.get("DHAGA_LEAK_OPERATIONS") or 200_000)
ROUNDS = 5
STATM = Path("/proc/self/statm")

OWNER = threading.Event()
"""The owner of a wait queue that belongs to no primitive."""


class Subject(NamedTuple):
    """A step that is repeated, and the objects that it uses and that outlive it."""

    step: Callable[[], object]
    kept: list[object]


class Wait(NamedTuple):
    """A wait that only its timeout, a cancel, an error or a call of ``serve`` ends, and the objects that outlive it."""

    wait: Callable[[float | None], object]
    serve: Callable[[], object]
    kept: list[object]


plain: list[Callable[[], Iterator[Subject]]] = []
waits: list[Callable[[], Iterator[Wait]]] = []


# ---- figures


def figures(kept: list[object]) -> dict[str, int]:
    """Return the figures that must not grow. Debug builds of Python count all references, others those to ``kept``."""
    gc.collect()
    found = {f"references to {type(each).__name__} {n}": sys.getrefcount(each) for n, each in enumerate(kept)}
    # Before Python 3.12, references to these ints and to None, True and False are counted as all others are.
    found["references to small ints"] = sum(map(sys.getrefcount, range(-5, 257)))
    if STATM.exists():
        found["resident pages"] = int(STATM.read_text().split()[1])
    if hasattr(sys, "gettotalrefcount"):
        found["references"] = sys.gettotalrefcount()
    return {"blocks": sys.getallocatedblocks()} | found


def growth(subject: Subject, operations: int) -> dict[str, list[int]]:
    """Return the figures that change in every round, and by how much: a cache does not grow for ever, a leak does."""
    calls = max(operations // ROUNDS, 50)
    kept = [*subject.kept, *everywhere()]
    run(subject.step, calls // 2)
    names = list(figures(kept))
    # These arrays exist before the first round: to store the figures takes no further memory.
    seen = [array("q", [0] * len(names)) for _ in range(ROUNDS + 1)]
    for row in seen:
        row[:] = array("q", figures(kept).values())
        run(subject.step, calls if row is not seen[-1] else 0)
    rises = {
        name: [after - before for before, after in pairwise(column)] for name, *column in zip(names, *seen, strict=True)
    }
    blocks, pages = (sum(rises.get(name, ())) for name in ("blocks", "resident pages"))
    print(f"{ROUNDS * calls} operations: {blocks:+} blocks, {pages:+} pages")
    # Python's caches of memory for reuse grow by about 100 blocks, most of them in the first rounds.
    most = max(64, calls // 100)
    # References that become fewer in every round are dropped once too often.
    return {
        name: rise
        for name, rise in rises.items()
        if min(rise) > most or (name.startswith("references") and max(rise) < -most)
    }


def everywhere() -> list[object]:
    """Return the objects that every switch and wake uses."""
    me = dhaga.current()
    scheduler: Any = me.scheduler
    poller = scheduler.poller
    of_it = [scheduler.hub, scheduler.run_queue, scheduler._low, poller, poller.watchers]
    return [me, scheduler, *of_it, vars(hooks), Dhaga, None, True, False]


def run(step: Callable[[], object], calls: int) -> None:
    for _ in repeat(None, calls):
        step()


@contextlib.contextmanager
def partner(body: Callable[[], object]) -> Iterator[Dhaga[None]]:
    """Yield a dhaga that calls ``body`` again and again, and cancel it at the end."""

    def loop() -> None:
        while True:
            body()

    other = dhaga.spawn(loop)
    dhaga.sleep(0)
    yield other
    other.cancel()
    other.join()


# ---- operations that wait for nothing, or for a partner that is always there


@plain.append
def yields() -> Iterator[Subject]:
    with partner(lambda: dhaga.sleep(0)) as other:
        yield Subject(lambda: dhaga.sleep(), [other])


@plain.append
def yields_to_low_priority() -> Iterator[Subject]:
    def step() -> None:
        dhaga.spawn(dhaga.sleep, priority=dhaga.LOW).join()

    yield Subject(step, [])


@plain.append
def parks() -> Iterator[Subject]:
    with partner(lambda: dhaga.park("news")) as other:
        yield Subject(lambda: (other.wake("rain"), dhaga.sleep(0)), [other])


@plain.append
def parks_with_a_listener() -> Iterator[Subject]:
    hooks.on_wake, before = (lambda waiter: [waiter]), hooks.on_wake
    with partner(lambda: dhaga.park("news")) as other:
        yield Subject(lambda: (other.wake("rain"), dhaga.sleep(0)), [other, hooks.on_wake])
    hooks.on_wake = before


@plain.append
def spawns() -> Iterator[Subject]:
    yield Subject(lambda: dhaga.spawn(int).join(), [])


@plain.append
def spawns_of_functions() -> Iterator[Subject]:
    function, item, context = (lambda *items, **named: items), object(), contextvars.copy_context()

    def step() -> None:
        dhaga.spawn(function, item, item, name="N").join()
        dhaga.spawn(function, item, key=item, daemon=True).join()
        dhaga.spawn(function, context=context).join()

    yield Subject(step, [function, item, context])


@plain.append
def spawns_that_fail() -> Iterator[Subject]:
    def step() -> None:
        with contextlib.suppress(ZeroDivisionError):
            dhaga.spawn(lambda: 1 // 0).result()

    yield Subject(step, [])


@plain.append
def spawns_that_are_cancelled_first() -> Iterator[Subject]:
    yield Subject(lambda: (never := dhaga.spawn(int)).cancel() and never.join(), [])


@plain.append
def locks() -> Iterator[Subject]:
    lock = threading.Lock()

    def step() -> None:
        with lock:
            lock.acquire(blocking=False)
        lock.acquire()
        lock.release()
        lock.acquire(timeout=1)
        lock.release()

    yield Subject(step, [lock, lock._waiters])


@plain.append
def rlocks() -> Iterator[Subject]:
    lock = threading.RLock()

    def step() -> None:
        with lock, lock:
            lock.acquire()
            lock.release()
        for _ in range(300):  # beyond the small ints that CPython caches
            lock.acquire()
        for _ in range(300):
            lock.release()

    yield Subject(step, [lock, lock._waiters])


@plain.append
def events() -> Iterator[Subject]:
    event = threading.Event()
    yield Subject(lambda: (event.set(), event.wait(), event.wait(timeout=1), event.clear()), [event, event._waiters_])


@plain.append
def queues() -> Iterator[Subject]:
    items: queue.Queue[object] = queue.Queue(400)
    item = object()

    def step() -> None:
        for _ in range(300):
            items.put(item)
        for _ in range(300):
            items.get()
            items.task_done()

    yield Subject(step, [item, items, items._stock_, items._getters_, items._putters_, items.mutex])


@plain.append
def queues_of_other_kinds() -> Iterator[Subject]:
    items: list[Any] = [queue.LifoQueue(), queue.PriorityQueue(), queue.SimpleQueue()]
    yield Subject(lambda: [(each.put(1000), each.get()) for each in items], [*items])


@plain.append
def wait_queues_that_are_empty() -> Iterator[Subject]:
    waiters = WaitQueue(OWNER, "news")
    yield Subject(lambda: waiters.wake_first(), [waiters])


@plain.append
def refusals() -> Iterator[Subject]:
    lock, rlock, event, waiters = threading.Lock(), threading.RLock(), threading.Event(), WaitQueue(OWNER, "news")
    items: queue.Queue[int] = queue.Queue()
    refused: list[tuple[Any, tuple[object, ...]]] = [
        (lock.release, ()),
        (lock.release, (1, 2, 3, 4)),
        (lock.acquire, (False, 1)),
        (rlock.release, ()),
        (rlock.acquire, ("", "")),
        (event.wait, ("soon",)),
        (event.set, (1,)),
        (items.put, ()),
        (items.get, (True, -1)),
        (items.get_nowait, ()),
        (dhaga.sleep, (-1,)),
        (dhaga.sleep, ("soon",)),
        (waiters.wake_first, (1, 2, 3)),
    ]

    def step() -> None:
        for call, arguments in refused:
            try:
                call(*arguments)
            except (TypeError, ValueError, RuntimeError, queue.Empty):
                continue
            raise AssertionError(f"{call} has not refused {arguments}")

    yield Subject(step, [lock, rlock, event, items, waiters])


@plain.append
def serves() -> Iterator[Subject]:
    waiters = WaitQueue(OWNER, "news")

    def wait() -> None:
        waiters.wait(True, lambda: [waiters.wake_first()])

    yield Subject(lambda: dhaga.spawn(wait).join(), [waiters])


@plain.append
def serves_that_fail() -> Iterator[Subject]:
    waiters = WaitQueue(OWNER, "news")

    def wait() -> None:
        with contextlib.suppress(ZeroDivisionError):
            waiters.wait(True, lambda: 1 // 0)

    yield Subject(lambda: dhaga.spawn(wait).join(), [waiters])


@plain.append
def lock_hand_overs() -> Iterator[Subject]:
    lock = threading.Lock()

    def hold() -> None:
        with lock:
            dhaga.sleep(0)

    with partner(hold) as other:
        yield Subject(hold, [lock, lock._waiters, other])


@plain.append
def rlock_hand_overs() -> Iterator[Subject]:
    lock = threading.RLock()

    def hold() -> None:
        with lock, lock:
            dhaga.sleep(0)

    with partner(hold) as other:
        yield Subject(hold, [lock, lock._waiters, other])


@plain.append
def event_ping_pong() -> Iterator[Subject]:
    there, back = threading.Event(), threading.Event()

    with partner(lambda: (there.wait(), there.clear(), back.set())) as other:
        yield Subject(lambda: (there.set(), back.wait(), back.clear()), [there, back, there._waiters_, other])


@plain.append
def queue_ping_pong() -> Iterator[Subject]:
    there, back = queue.Queue[object](), queue.Queue[object]()
    item = object()

    with partner(lambda: back.put(there.get())) as other:
        yield Subject(lambda: (there.put(item), back.get()), [item, there, back, there._getters_, other])


@plain.append
def queue_that_is_soon_full() -> Iterator[Subject]:
    items: queue.Queue[object] = queue.Queue(1)
    item = object()
    with partner(items.get) as other:
        yield Subject(lambda: items.put(item), [item, items, items._putters_, items._stock_, other])


@plain.append
def condition_ping_pong() -> Iterator[Subject]:
    condition = threading.Condition()

    def turn() -> None:
        with condition:
            condition.notify()
            condition.wait()

    with partner(turn) as other:
        yield Subject(turn, [condition, other])


@plain.append
def simple_queue_ping_pong() -> Iterator[Subject]:
    there, back = queue.SimpleQueue[object](), queue.SimpleQueue[object]()
    with partner(lambda: back.put(there.get())) as other:
        yield Subject(lambda: (there.put(other), back.get()), [there, back, other])


@plain.append
def semaphores() -> Iterator[Subject]:
    permits = threading.Semaphore(1)

    def hold() -> None:
        with permits:
            dhaga.sleep(0)

    with partner(hold) as other:
        yield Subject(hold, [permits, other])


@plain.append
def sockets() -> Iterator[Subject]:
    near, far = socket.socketpair()
    with near, far, partner(lambda: far.sendall(far.recv(4096))) as other:
        yield Subject(lambda: (near.sendall(b"x" * 256), near.recv(4096)), [near, far, other])


@plain.append
def sockets_of_tls() -> Iterator[Subject]:
    room = bytearray(4096)
    with tls() as (near, far), partner(lambda: far.sendall(far.recv(4096))) as other:
        yield Subject(lambda: (near.sendall(b"x" * 256), near.recv_into(room)), [near, far, other, room])


@plain.append
def sockets_that_come_and_go() -> Iterator[Subject]:
    def step() -> None:
        near, far = socket.socketpair()
        with near, far:
            reader = dhaga.spawn(far.recv, 1)
            dhaga.sleep(0)
            near.send(b"x")
            reader.join()

    yield Subject(step, [])


# ---- waits that are ended in every way


@waits.append
def a_park() -> Iterator[Wait]:
    parked: list[Any] = []

    def wait(timeout: float | None) -> object:
        parked[:] = [dhaga.current()]
        return dhaga.park("news", timeout=timeout)

    yield Wait(wait, lambda: parked.pop().wake("rain"), [])


@waits.append
def a_wait_queue() -> Iterator[Wait]:
    waiters = WaitQueue(OWNER, "news")
    yield Wait(lambda timeout: waiters.wait(False, int, timeout), waiters.wake_first, [waiters])


@waits.append
def a_lock() -> Iterator[Wait]:
    yield from held(threading.Lock())


@waits.append
def an_rlock() -> Iterator[Wait]:
    yield from held(threading.RLock())


def held(lock: Any) -> Iterator[Wait]:
    lock.acquire()

    def wait(timeout: float | None) -> None:
        if lock.acquire() if timeout is None else lock.acquire(timeout=timeout):
            dhaga.sleep(0)
            lock.release()

    yield Wait(wait, lambda: (lock.release(), lock.acquire()), [lock, lock._waiters])
    lock.release()


@waits.append
def an_event() -> Iterator[Wait]:
    event = threading.Event()
    yield Wait(event.wait, lambda: (event.set(), event.clear()), [event])


@waits.append
def a_condition() -> Iterator[Wait]:
    condition = threading.Condition()

    def wait(timeout: float | None) -> None:
        with condition:
            condition.wait(timeout)

    def serve() -> None:
        with condition:
            condition.notify()

    yield Wait(wait, serve, [condition])


@waits.append
def a_semaphore() -> Iterator[Wait]:
    permits = threading.Semaphore(0)
    yield Wait(
        lambda timeout: permits.acquire(timeout=timeout),
        lambda: (permits.release(), dhaga.sleep(0), permits.acquire(False)),
        [permits],
    )


@waits.append
def an_empty_queue() -> Iterator[Wait]:
    yield from empty(queue.Queue())


@waits.append
def an_empty_simple_queue() -> Iterator[Wait]:
    yield from empty(queue.SimpleQueue())


def empty(items: Any) -> Iterator[Wait]:
    item = object()

    def wait(timeout: float | None) -> None:
        with contextlib.suppress(queue.Empty):
            items.get() if timeout is None else items.get(timeout=timeout)

    def serve() -> None:
        items.put(item)
        dhaga.sleep(0)
        with contextlib.suppress(queue.Empty):
            items.get_nowait()

    yield Wait(wait, serve, [item, items])


@waits.append
def a_full_queue() -> Iterator[Wait]:
    items: queue.Queue[object] = queue.Queue(1)
    items.put(item := object())

    def wait(timeout: float | None) -> None:
        with contextlib.suppress(queue.Full):
            items.put(item) if timeout is None else items.put(item, timeout=timeout)

    def serve() -> None:
        items.get()
        if items.empty():
            items.put(item)

    yield Wait(wait, serve, [item, items, items._putters_])


@waits.append
def a_join() -> Iterator[Wait]:
    others: list[Any] = [dhaga.spawn(dhaga.park, "end")]
    dhaga.sleep(0)

    def serve() -> None:
        others.pop().wake()
        others.append(dhaga.spawn(dhaga.park, "end"))
        dhaga.sleep(0)

    yield Wait(lambda timeout: others[0].join(timeout), serve, [])
    others[0].wake()
    others[0].join()


@waits.append
def a_socket() -> Iterator[Wait]:
    near, far = socket.socketpair()

    def wait(timeout: float | None) -> None:
        far.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            far.recv(1)  # a byte that came too late for an earlier victim
        far.settimeout(timeout)
        far.recv(1)

    with near, far:
        yield Wait(wait, lambda: near.send(b"x"), [near, far])


@waits.append
def a_socket_of_tls() -> Iterator[Wait]:
    def wait(timeout: float | None) -> None:
        far.settimeout(0)
        with contextlib.suppress(ssl.SSLWantReadError):
            far.recv(1)  # a byte that came too late for an earlier victim
        far.settimeout(timeout)
        far.recv(1)

    with tls() as (near, far):
        yield Wait(wait, lambda: near.send(b"x"), [near, far])


def served(victim: Any, wait: Wait) -> None:
    wait.serve()


def cancelled(victim: Any, wait: Wait) -> None:
    victim.cancel()


def cancelled_and_served(victim: Any, wait: Wait) -> None:
    """Cancel the victim, so that ``serve`` finds a void ticket."""
    victim.cancel()
    wait.serve()


def served_and_cancelled(victim: Any, wait: Wait) -> None:
    """Cancel the victim while it is runnable."""
    wait.serve()
    victim.cancel()


def struck(victim: Any, wait: Wait) -> None:
    """Raise an error of the program's own, as a Timeout does."""
    victim.cancel_with(LookupError("struck"))


def late(victim: Any, wait: Wait) -> None:
    """Do nothing: the wait's timeout ends it."""


ENDS: list[Callable[[Any, Wait], None]] = [served, cancelled, cancelled_and_served, served_and_cancelled, struck, late]


def ended_by(end: Callable[[Any, Wait], None], wait: Wait) -> Subject:
    def victim() -> None:
        with contextlib.suppress(LookupError, TimeoutError):
            wait.wait(0.000_001 if end is late else None)

    def step() -> None:
        waiting = dhaga.spawn(victim)
        dhaga.sleep(0)
        end(waiting, wait)
        waiting.join()

    return Subject(step, wait.kept)


# ---- the tests

TESTS = 2 * len(plain) + len(waits) * len(ENDS)


def assert_flat(subject: Subject) -> None:
    found = growth(subject, OPERATIONS // TESTS)
    assert not found, f"changes in every round: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["dhaga", "main code"])
@pytest.mark.parametrize("operation", plain, ids=lambda each: each.__name__)
def test_nothing_leaks_from(operation: Any, place: str) -> None:
    def body() -> None:
        with contextlib.closing(operation()) as subjects:
            for subject in subjects:
                assert_flat(subject)

    with testing.virtual_clock() if not operation.__name__.startswith("sockets") else contextlib.nullcontext():
        body() if place == "main code" else dhaga.spawn(body).result()


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("wait", waits, ids=lambda each: each.__name__)
def test_nothing_leaks_from_a_wait_that_is(wait: Any, end: Any) -> None:
    def body() -> None:
        for each in wait():
            assert_flat(ended_by(end, each))

    with testing.virtual_clock() if not wait.__name__.startswith("a_socket") else contextlib.nullcontext():
        dhaga.spawn(body).result()
