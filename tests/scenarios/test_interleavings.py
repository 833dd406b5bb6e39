"""Two OS threads in one primitive: the first is stopped at each line, in turn, while the second goes as far as it can.

Then the first goes on, and nothing may be lost, doubled or stuck. No switch can come within a line tagged ``atomic``;
see ``dhaga/_sync/lock.py``.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import queue
from dhaga._kernel.errors import Cancelled
from dhaga._kernel.wait import cancellation, current, deadlock, thread_waiter
from dhaga._kernel.wait import waiter as waiter_room
from dhaga._kernel.wait.cancellation import ScopeCancel, pending_errors_of
from dhaga._sync import event, lock, mutex, semaphore, simple_queue
from dhaga._sync.barrier import Barrier, BrokenBarrierError
from dhaga._sync.condition import Condition
from dhaga._sync.event import Event
from dhaga._sync.lock import Lock, RLock
from dhaga._sync.semaphore import BoundedSemaphore, Semaphore
from dhaga._workers import offload, offloaded_call, worker_threads
from dhaga.queue import Empty, Full, LifoQueue, PriorityQueue, Queue, ShutDown, SimpleQueue

pytestmark = pytest.mark.once

FILES = {
    module.__file__
    for module in (
        offload,
        offloaded_call,
        worker_threads,
        event,
        lock,
        mutex,
        queue,
        semaphore,
        simple_queue,
        thread_waiter,
        waiter_room,
        current,
        cancellation,
    )
}
PARK_FILES = {module.__file__ for module in (thread_waiter, waiter_room, deadlock)}
PARK = thread_waiter.OSThread.park_until_woken.__code__
BLOCKS = {thread_waiter.OSThread.block.__code__, thread_waiter.OSThread.block_forever.__code__}
GUARDS = {mutex.Mutex.acquire.__code__, mutex.Mutex.acquire_slowly.__code__}
"""Functions in which a thread waits: in BLOCKS for something that another one gives, in GUARDS for one to go on."""


class Guard:
    """An OS lock whose waits can be recognized: ``__enter__`` is one of GUARDS."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.acquire, self.release = self.lock.acquire, self.lock.release
        self._is_owned: Callable[[], bool] = self.lock._is_owned  # type: ignore[attr-defined]

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


GUARDS.add(Guard.__enter__.__code__)
SOON = 10.0


class Run(threading.Thread):
    """An OS thread that calls ``fn``: its result or error, and whether it has gone as far as it can."""

    def __init__(self, fn: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.fn = fn
        self.outcome: Any = None
        self.error: BaseException | None = None
        self.unstarted = [True]

    def run(self) -> None:
        self.waiter = current.this_waiter()
        try:
            self.outcome = self.fn()
        except BaseException as error:
            self.error = error

    def waits(self) -> bool:
        frame = sys._current_frames().get(self.ident or 0)
        return frame is not None and frame.f_code in BLOCKS and bool(self.waiter.parked)

    def is_stuck(self) -> bool:
        frame = sys._current_frames().get(self.ident or 0)
        return frame is not None and (frame.f_code in GUARDS or self.waits())

    def go_as_far_as_it_can(self) -> None:
        """Start, once: the first thread, after its wait has timed out, may call this while the main thread does."""
        try:
            self.unstarted.pop()
        except IndexError:
            while self.ident is None:
                time.sleep(0.00005)
            return
        self.start()
        while self.is_alive() and not self.is_stuck():
            time.sleep(0.00005)

    def end(self) -> Any:
        self.join(SOON)
        assert not self.is_alive(), "it waits for ever"
        if self.error is not None:
            raise self.error
        return self.outcome


class Stopped(Run):
    """An OS thread that calls ``meanwhile()`` at the nth line that it reaches in the files of the primitives."""

    def __init__(self, fn: Callable[[], object], nth: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(fn)
        self.left = nth
        self.meanwhile = meanwhile

    def run(self) -> None:
        sys.settrace(self.trace)
        try:
            super().run()
        finally:
            sys.settrace(None)

    def trace(self, frame: Any, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            self.left -= 1
            if not self.left:
                self.meanwhile()
        return self.trace


class Struck(Run):
    """An OS thread that gets a KeyboardInterrupt at the nth point of its parks where CPython would deliver a signal.

    Those are the start of a function (not of the park itself: it has not begun) and the return from a C function.
    ``meanwhile()`` is called just before.
    """

    def __init__(self, fn: Callable[[], object], nth: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(fn)
        self.left = nth
        self.meanwhile = meanwhile

    def run(self) -> None:
        sys.setprofile(self.profile)
        try:
            super().run()
        finally:
            sys.setprofile(None)

    def profile(self, frame: Any, event: str, arg: object) -> None:
        caller = frame if event == "c_return" else frame.f_back
        if (
            event in ("call", "c_return")
            and frame.f_code.co_filename in PARK_FILES  # not a finalizer
            and caller.f_code in (PARK, *BLOCKS)
        ):
            self.left -= 1
            if not self.left:
                self.meanwhile()
                raise KeyboardInterrupt


def settled(*runs: Run) -> list[bool]:
    """Return which threads wait, once none goes on by itself any more."""
    while not all(run.waits() or not run.is_alive() for run in runs):
        time.sleep(0.00005)
    return [run.is_alive() for run in runs]


def ends(first: Run, second: Run) -> None:
    first.end()
    second.end()


Scenario = Callable[[], tuple[Callable[[], object], Callable[[], object], Callable[[Run, Run], object]]]
"""Makes the functions of the first and of the second thread, and the check of both after the first one's stop."""


def at_every_line(scenario: Scenario, alone: bool = False) -> int:
    """Return the number of lines that the first thread was stopped at. ``alone``: it ends without the second one."""
    nth = 0
    while True:
        nth += 1
        do_first, do_second, check = scenario()
        second = Run(do_second)
        first = Stopped(do_first, nth, second.go_as_far_as_it_can)
        first.go_as_far_as_it_can()
        if alone:
            first.join(SOON)
        second.go_as_far_as_it_can()
        check(first, second)
        first.end()
        if first.left > 0:
            return nth - 1


class Kind:
    """A primitive from which something can be taken, with a wait, and to which it can be given."""

    def __init__(self, name: str, make: Any, take: Any, give: Any, left: Any) -> None:
        self.name = name
        self.make = make
        self.take: Callable[[Any, float | None], bool] = take
        self.give: Callable[[Any], object] = give
        self.left: Callable[[Any], int] = left


def held(lock: Any) -> Any:
    lock.acquire()
    return lock


def full(queue: Any) -> Any:
    queue.put("first")
    return queue


def get(queue: Any, timeout: float | None) -> bool:
    try:
        queue.get(timeout=timeout)
    except Empty:
        return False
    return True


def put(queue: Any, timeout: float | None) -> bool:
    try:
        queue.put("more", timeout=timeout)
    except Full:
        return False
    return True


class Foreign:
    """A lock of a kind that a Condition does not know."""

    def __init__(self) -> None:
        lock = Lock()
        self.acquire, self.release = lock.acquire, lock.release

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Box:
    """A condition, and a count of the things that can be taken under it."""

    def __init__(self, lock: Any) -> None:
        self.changed = Condition(lock)
        self.count = 0

    def take(self, timeout: float | None) -> bool:
        with self.changed:
            taken = bool(self.changed.wait_for(lambda: self.count, timeout))
            self.count -= taken
        return taken

    def give(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify()


class OwnQueue(Queue[Any]):
    """A queue of a kind that this package does not know."""

    def _put(self, item: Any) -> None:
        super()._put(item)


def acquire(lock: Any, timeout: float | None) -> bool:
    if timeout is None:
        return bool(lock.acquire())
    return bool(lock.acquire(timeout=timeout))


def release(lock: Any) -> None:
    lock.release()


def permits(semaphore: Any) -> int:
    """Return the number of permits, by taking them."""
    count = 0
    while semaphore.acquire(blocking=False):
        count += 1
    return count


KINDS = [
    Kind("Lock", lambda: held(Lock()), acquire, release, permits),
    Kind("Semaphore", lambda: Semaphore(0), acquire, release, permits),
    Kind("BoundedSemaphore", lambda: held(held(held(BoundedSemaphore(3)))), acquire, release, permits),
    *(
        Kind(f"Condition {name}", lambda make=make: Box(make()), Box.take, Box.give, lambda b: b.count)
        for name, make in (("Lock", Lock), ("RLock", RLock), ("foreign", Foreign))
    ),
    *(
        Kind(kind.__name__, kind, get, lambda q: q.put(1), lambda q: q.qsize())
        for kind in (Queue, LifoQueue, PriorityQueue, SimpleQueue, OwnQueue)
    ),
    *(
        Kind(
            f"full {kind.__name__}", lambda k=kind: full(k(1)), put, lambda q: q.get(), lambda q: q.maxsize - q.qsize()
        )
        for kind in (Queue, PriorityQueue, OwnQueue)
    ),
]
NO_LINE_OF_THEIR_OWN = ("LifoQueue", "full PriorityQueue")
all_kinds = pytest.mark.parametrize(
    "kind",
    [pytest.param(k, id=k.name, marks=pytest.mark.slow if k.name in NO_LINE_OF_THEIR_OWN else ()) for k in KINDS],
)


def waiting_thread(fn: Callable[[], object]) -> Run:
    """Start a thread, and return once it waits (or its time is up already: the machine may be busy)."""
    run = Run(fn)
    run.go_as_far_as_it_can()
    return run


@all_kinds
def test_what_is_given_to_one_who_is_about_to_wait_is_taken(kind: Kind) -> None:
    def scenario() -> Any:
        it = kind.make()

        def check(first: Run, second: Run) -> None:
            assert first.end() is True
            second.end()
            assert kind.left(it) == 0

        return lambda: kind.take(it, None), lambda: kind.give(it), check

    assert at_every_line(scenario) > 5


@all_kinds
def test_one_who_comes_while_it_is_given_takes_it(kind: Kind) -> None:
    def scenario() -> Any:
        it = kind.make()

        def check(first: Run, second: Run) -> None:
            first.end()
            assert second.end() is True
            assert kind.left(it) == 0

        return lambda: kind.give(it), lambda: kind.take(it, None), check

    assert at_every_line(scenario) > 0


@all_kinds
def test_what_is_given_just_when_time_is_up_goes_to_one(kind: Kind) -> None:
    """Two wait, and the first one's time is up while something is given: the first or the second one takes it."""

    def scenario() -> Any:
        it = kind.make()
        early = waiting_thread(lambda: kind.take(it, 0.001))
        late = waiting_thread(lambda: kind.take(it, None))

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            if early.end():
                kind.give(it)
            assert late.end() is True
            assert kind.left(it) == 0

        return lambda: kind.give(it), lambda: early.join(0.002), check

    assert at_every_line(scenario) > 0


@all_kinds
def test_one_whose_time_is_up_leaves_what_it_was_not_given(kind: Kind) -> None:
    def scenario() -> Any:
        it = kind.make()

        def check(first: Run, second: Run) -> None:
            second.end()
            assert first.end() + kind.left(it) == 1

        return lambda: kind.take(it, 0.0002), lambda: kind.give(it), check

    assert at_every_line(scenario, alone=True) > 5


@all_kinds
def test_two_gifts_at_once_are_taken_by_two(kind: Kind) -> None:
    def scenario() -> Any:
        it = kind.make()
        takers = [waiting_thread(lambda: kind.take(it, None)) for _ in range(2)]

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            assert [taker.end() for taker in takers] == [True, True]
            assert kind.left(it) == 0

        return lambda: kind.give(it), lambda: kind.give(it), check

    if kind.name != "Lock":
        assert at_every_line(scenario) > 0


@all_kinds
def test_of_two_who_come_at_once_one_takes_the_one_there_is(kind: Kind) -> None:
    def scenario() -> Any:
        it = kind.make()
        kind.give(it)

        def check(first: Run, second: Run) -> None:
            assert sorted(settled(first, second)) == [False, True]
            kind.give(it)
            assert first.end() is second.end() is True
            assert kind.left(it) == 0

        return lambda: kind.take(it, None), lambda: kind.take(it, None), check

    assert at_every_line(scenario) > 0


@all_kinds
def test_what_is_given_just_when_a_dhaga_is_cancelled_is_not_lost(kind: Kind) -> None:
    with dhaga.Scheduler("other") as other:

        def scenario() -> Any:
            it = kind.make()
            d = other.spawn(kind.take, it, None)
            while not d.parked:
                time.sleep(0.00005)
            later = waiting_thread(lambda: kind.take(it, None))

            def cancel() -> None:
                d.cancel()
                through = threading.Event()
                other.call(through.set)
                through.wait()

            def check(first: Run, second: Run) -> None:
                ends(first, second)
                try:
                    assert d.result(SOON) is True
                    kind.give(it)
                except dhaga.Cancelled:
                    pass
                assert later.end() is True
                assert kind.left(it) == 0

            return lambda: kind.give(it), cancel, check

        assert at_every_line(scenario) > 0


@all_kinds
@pytest.mark.parametrize("timeout", [None, 100])
@pytest.mark.parametrize("given", ["before", "after"])
def test_a_ctrl_c_at_any_point_of_a_park_loses_nothing_and_is_not_lost(
    kind: Kind, timeout: float | None, given: str
) -> None:
    """An item given before the strike is taken, and the next park is interrupted; else this park is, and leaves it."""
    nth, struck, outcomes = 0, True, set()
    while struck:
        nth += 1
        taken, struck = take_struck_at(nth, kind, timeout, given == "before")
        outcomes.add((taken, struck))
    assert nth >= 5
    assert outcomes >= ({(True, True), (True, False)} if given == "before" else {(False, True), (True, False)})


def take_struck_at(nth: int, kind: Kind, timeout: float | None, given_before: bool) -> tuple[bool, bool]:
    """Return whether the item was taken, and whether its taker was struck."""
    it = kind.make()
    giver = Run(lambda: kind.give(it))
    first = Struck(lambda: kind.take(it, timeout), nth, giver.go_as_far_as_it_can if given_before else lambda: None)
    first.go_as_far_as_it_can()
    giver.go_as_far_as_it_can()
    try:
        taken = first.end()
    except KeyboardInterrupt:
        taken = False
    giver.end()
    struck = first.left <= 0
    assert taken + kind.left(it) == 1
    assert [type(error) for error in first.waiter.pending_errors] == [KeyboardInterrupt] * (taken and struck)
    return taken, struck


# ---- cancels of a waiter that does not wait


def add_error(waiter: Any, error: Cancelled) -> None:
    waiter.cancel_with(error)


def add_scope_cancel(waiter: Any, error: Cancelled) -> None:
    waiter.cancel_by_scope(ScopeCancel(None, 7, error))


def lift_shield(waiter: Any, error: Cancelled) -> None:
    """Deliver the errors that a shield has held off, and cancel the waiter."""
    pending_errors_of(waiter).unshield(5)
    waiter.cancel_with(error)


@pytest.mark.parametrize(
    ("add_first", "shielded"),
    [(add_error, False), (add_error, True), (add_scope_cancel, False), (add_scope_cancel, True), (lift_shield, True)],
)
@pytest.mark.parametrize("add_second", [add_error, add_scope_cancel])
def test_of_two_cancels_at_once_none_is_lost(add_first: Any, add_second: Any, shielded: bool) -> None:
    def scenario() -> Any:
        waiter: Any = thread_waiter.OSThread()
        earlier, one, other = Cancelled("earlier"), Cancelled("one"), Cancelled("other")
        if shielded:
            pending_errors_of(waiter).shield(5)
            waiter.cancel_with(earlier)

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            causes = [*waiter.pending_errors, *getattr(waiter.pending_errors, "held", ())]
            reasons = sorted(str(getattr(cause, "reason", cause)) for cause in causes)
            assert reasons == ["earlier"] * shielded + ["one", "other"]

        return lambda: add_first(waiter, one), lambda: add_second(waiter, other), check

    assert at_every_line(scenario) > 3


# ---- threads of an offload pool


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("then", ["call", "shutdown"])
def test_an_idle_thread_that_ends_leaves_no_call_and_no_shutdown_behind(
    monkeypatch: pytest.MonkeyPatch, threads: int, then: str
) -> None:
    monkeypatch.setattr(worker_threads, "IDLE_SECONDS", 0.0001)

    def scenario() -> Any:
        pool = offload.OffloadPool("ending", threads)
        thread = worker_threads.WorkerThread(pool)
        pool.workers.threads.add(thread)
        pool.workers.guard = Guard()

        def serve() -> None:
            while thread.run_next_call():
                pass

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            assert second.outcome == (8 if then == "call" else None)
            pool.shutdown(wait=False)

        return serve, (lambda: pool.offload(pow, 2, 3)) if then == "call" else pool.shutdown, check

    assert at_every_line(scenario) > 5


# ---- events


def test_a_set_while_one_is_about_to_wait_releases_it() -> None:
    def scenario() -> Any:
        event = Event()
        return event.wait, event.set, ends

    assert at_every_line(scenario) > 5


def test_one_set_releases_nobody_twice() -> None:
    """A waiter that is released, clears the flag and waits again needs another set, however late the first one is."""

    def scenario() -> Any:
        event = Event()
        again: list[bool] = []

        def waits_twice() -> None:
            event.wait()
            event.clear()
            again.append(True)
            event.wait()

        others = [waiting_thread(event.wait) for _ in range(2)]
        early = waiting_thread(waits_twice)
        last = waiting_thread(lambda: event.wait(0.0005))

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            [other.end() for other in others]
            last.end()
            while not again:
                time.sleep(0.00005)
            assert settled(early) == [True] and not event.is_set()
            event.set()
            early.end()

        return event.set, lambda: time.sleep(0.001), check

    assert at_every_line(scenario) > 5


def test_two_sets_at_once_release_all() -> None:
    def scenario() -> Any:
        event = Event()
        waiters = [waiting_thread(event.wait) for _ in range(2)]

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            assert [waiter.end() for waiter in waiters] == [True, True]

        return event.set, event.set, check

    assert at_every_line(scenario) > 5


@pytest.mark.parametrize("then", [None, "reset", "abort"])
def test_a_barrier_opens_for_all_or_breaks_for_all(then: str | None) -> None:
    def scenario() -> Any:
        barrier = Barrier(3)

        def waits(timeout: float | None) -> int | str:
            try:
                return barrier.wait(timeout)
            except BrokenBarrierError:
                return "broken"

        def second_does() -> int | str:
            if then is not None:
                getattr(barrier, then)()
            return waits(0.01)

        early = waiting_thread(lambda: waits(0.001))

        def check(first: Run, second: Run) -> None:
            outcomes = [run.end() for run in (early, first, second)]
            assert sorted(outcomes, key=str) in ([0, 1, 2], ["broken"] * 3)
            assert barrier.n_waiting == 0

        return lambda: waits(0.01), second_does, check

    assert at_every_line(scenario) > 5


# ---- the rest of a queue


@pytest.mark.parametrize("puts", [0, 1])
def test_a_join_ends_by_the_last_task_done_alone(puts: int) -> None:
    def scenario() -> Any:
        queue = full(Queue())

        def second_does() -> None:
            queue.task_done()
            for _ in range(puts):
                queue.put("more")

        def check(first: Run, second: Run) -> None:
            second.end()
            if settled(first) == [True]:
                assert puts
                queue.task_done()
            first.end()

        return queue.join, second_does, check

    assert at_every_line(scenario) > 5


def test_a_late_task_done_ends_no_join_that_comes_later() -> None:
    def scenario() -> Any:
        queue = full(Queue())
        early = waiting_thread(queue.join)

        def second_does() -> None:
            queue.put("more")
            queue.join()

        def check(first: Run, second: Run) -> None:
            first.end()
            if settled(early, second)[1]:
                assert queue.unfinished_tasks == 1
            queue.task_done()
            ends(early, second)

        return queue.task_done, second_does, check

    assert at_every_line(scenario) > 5


@pytest.mark.parametrize("shape", ["empty", "getter", "putter"])
@pytest.mark.parametrize("stopped", ["shutdown", "user"])
@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize(
    "kind", [Queue, pytest.param(PriorityQueue, marks=pytest.mark.slow), OwnQueue], ids=lambda kind: kind.__name__
)
def test_a_shutdown_leaves_nobody_waiting_and_no_item_behind(
    kind: Any, immediate: bool, stopped: str, shape: str
) -> None:
    def scenario() -> Any:
        queue = kind(1)
        outcomes: list[object] = []

        def puts(item: int) -> None:
            try:
                queue.put(item)
                outcomes.append(("put", item))
            except ShutDown:
                outcomes.append(("refused", 0))

        def gets() -> None:
            try:
                while True:
                    outcomes.append(("got", queue.get()))
            except ShutDown:
                outcomes.append(("refused", 0))

        def check(first: Run, second: Run) -> None:
            ends(first, second)
            for waiter in waiters:
                waiter.end()
            put = {item for what, item in outcomes if what == "put"}
            got = {item for what, item in outcomes if what == "got"}
            assert got == put or (immediate and got < put), outcomes
            assert queue.empty()

        def second_does() -> None:
            puts(3)
            gets()

        waiters = [waiting_thread(gets)] if shape == "getter" else []
        if shape == "putter":
            puts(1)
            waiters = [waiting_thread(lambda: puts(2))]
        if stopped == "shutdown":
            return lambda: queue.shutdown(immediate), second_does, check
        return second_does, lambda: queue.shutdown(immediate), check

    assert at_every_line(scenario) > 5
