"""Finalizers that park: in the middle of a park of a dhaga, of main code or of a plain thread, and on the hub."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import queue, socket
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga.testing import virtual_clock
from dhaga.threading import Condition, Event, Lock, RLock, Semaphore

Call = Callable[[], Any]


def finalize_in_park_of(waits: Callable[[], Any], finalizer: Call) -> Any:
    """Call ``waits()``, and in its park ``finalizer()``: just before the switch, at a look at the clock."""
    me: Any = dhaga.current()
    scheduler, calls = me.scheduler, [finalizer]
    clock = scheduler.clock

    def clock_with_a_collection() -> float:
        if calls and me.parked and dhaga.current() is me:
            calls.pop()()
        return float(clock())

    scheduler.clock = clock_with_a_collection
    try:
        return waits()
    finally:
        scheduler.clock = clock
        assert not calls, "the finalizer was not called"


class Contended:
    """Objects that a finalizer may wait for: all are held, and released after a second."""

    def __init__(self) -> None:
        self.lock, self.rlock, self.semaphore = Lock(), RLock(), Semaphore(0)
        self.event, self.queue, self.simple_queue = Event(), queue.Queue[int](), queue.SimpleQueue[int]()
        self.condition, self.notified = Condition(), False
        self.ours, self.theirs = socket.socketpair()
        self.used, self.users = socket.socketpair()
        reader = dhaga.spawn(self.used.recv, 1)  # parks: the scheduler has a watcher from now on
        dhaga.sleep(0)
        self.users.send(b"x")
        reader.join()
        self.are_held = False
        self.holder = dhaga.spawn(self.hold)
        while not self.are_held:
            dhaga.sleep(0)

    def hold(self) -> None:
        with self.lock, self.rlock:
            self.are_held = True
            dhaga.sleep(1)
            self.are_held = False
        self.semaphore.release()
        self.event.set()
        self.queue.put(1)
        self.simple_queue.put(1)
        with self.condition:
            self.condition.notify()
            self.notified = True
        self.theirs.send(b"x")
        self.users.send(b"x")

    def close(self) -> None:
        for each in (self.ours, self.theirs, self.used, self.users):
            each.close()

    def with_lock(self) -> object:
        with self.lock:
            return True

    def with_rlock(self) -> object:
        with self.rlock, self.rlock:
            return True

    def with_condition(self) -> object:
        with self.condition:
            return self.notified or self.condition.wait()

    def with_semaphore(self) -> object:
        return self.semaphore.acquire()

    def get(self) -> object:
        return self.queue.get()

    def simple_get(self) -> object:
        return self.simple_queue.get()

    def wait(self) -> object:
        return self.event.wait()

    def join(self) -> object:
        self.holder.join()
        return not self.holder.is_alive()

    def sleep(self) -> object:
        dhaga.sleep(1.5)
        return True

    def sleep_0(self) -> object:
        dhaga.sleep(0)
        return True

    def recv(self) -> object:
        return self.ours.recv(1)

    def recv_again(self) -> object:
        return self.used.recv(1)

    def recv_in_time(self) -> object:
        self.used.settimeout(3)
        return self.used.recv(1)


FINALIZERS = [
    Contended.with_lock,
    Contended.with_rlock,
    Contended.with_condition,
    Contended.with_semaphore,
    Contended.get,
    Contended.simple_get,
    Contended.wait,
    Contended.join,
    Contended.sleep,
    Contended.sleep_0,
    Contended.recv,
    Contended.recv_again,
    Contended.recv_in_time,
]
finalizers = pytest.mark.parametrize("finalizer", FINALIZERS, ids=lambda finalizer: finalizer.__name__)


def in_dhaga(fn: Call) -> Any:
    return dhaga.spawn(fn).result()


def in_main_code(fn: Call) -> Any:
    return fn()


places = pytest.mark.parametrize("call", [in_dhaga, in_main_code])


@places
@finalizers
@pytest.mark.parametrize("end", ["timeout", "wake", "early wake", "cancel"])
def test_both_parks_end_as_they_should(call: Any, finalizer: Callable[[Contended], object], end: str) -> None:
    """The outer park is ended after the inner park or, at "early wake" and "cancel", before the inner park's end."""
    done = []

    def waits() -> Any:
        me = dhaga.current()

        def ends_it() -> None:
            dhaga.sleep({"wake": 2, "early wake": 0.5, "cancel": 0.5, "timeout": 5}[end])
            if end == "cancel":
                me.cancel_with(dhaga.Cancelled())
            else:
                outer.put("item")

        dhaga.spawn(ends_it)
        try:
            return finalize_in_park_of(lambda: outer.get(timeout=3), lambda: done.append(finalizer(contended)))
        except (queue.Empty, dhaga.Cancelled) as error:
            return type(error)

    with virtual_clock():
        contended, outer = Contended(), queue.Queue[str]()
        assert call(waits) == {"timeout": queue.Empty, "cancel": dhaga.Cancelled}.get(end, "item")
        assert done and done[0]
        dhaga.sleep(10)
        assert dhaga.current().parked == [] and not outer._getters_.parked()
        assert in_dhaga(lambda: outer.get(timeout=1) if outer.qsize() else "item") == "item"
        contended.close()


@places
@finalizers
def test_a_finalizer_does_not_take_the_wake_of_a_wait_that_has_not_switched_yet(
    call: Any, finalizer: Callable[[Contended], object]
) -> None:
    done = []

    def finalize() -> None:
        outer.put("item")  # as another OS thread may do between the halves of the wait
        assert not dhaga.current().parked
        done.append((finalizer(contended), contended.are_held))

    with virtual_clock():
        contended, outer = Contended(), queue.Queue[str]()
        assert call(lambda: finalize_in_park_of(lambda: outer.get(timeout=3), finalize)) == "item"
        [(result, are_held)] = done
        assert result and (finalizer is Contended.sleep_0 or not are_held)
        dhaga.sleep(10)
        assert dhaga.current().wait_target is None and not outer._getters_.parked()
        contended.close()


def yield_(me: Any) -> None:
    dhaga.sleep(0)


def go_around(me: Any) -> None:
    me.scheduler._go_around(me, me.wake_queue)


@finalizers
@pytest.mark.parametrize("yields", [yield_, go_around])
def test_a_finalizer_may_park_in_a_yield_of_its_caller(
    yields: Callable[[Any], None], finalizer: Callable[[Contended], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finalizer runs just before the switch, where the scheduler checks whether its lap is over."""
    calls, done = [], []
    lap_is_over = dhaga.Scheduler._lap_is_over

    def lap_is_over_with_a_collection(scheduler: Any) -> bool:
        if calls and dhaga.current() is me:
            done.append((calls.pop()(contended), contended.are_held))
        return lap_is_over(scheduler)

    def waits() -> None:
        nonlocal me
        me = dhaga.current()
        calls.append(finalizer)
        me.scheduler._end_stretch()
        yields(me)

    me: Any = None
    with virtual_clock():
        contended = Contended()
        monkeypatch.setattr(dhaga.Scheduler, "_lap_is_over", lap_is_over_with_a_collection)
        in_dhaga(waits)
        [(result, are_held)] = done
        assert result and (finalizer is Contended.sleep_0 or not are_held)
        contended.holder.join()
        dhaga.sleep(10)
        contended.close()


def test_a_wait_that_failed_before_its_switch_leaves_the_dhaga_cancellable() -> None:
    """Its target stays behind; the next wait finds that it is stale."""
    reached = []

    def fails() -> None:
        raise ValueError("failed")

    def waits() -> None:
        with pytest.raises(ValueError, match="failed"):
            waiters.wait(True, fails)
        assert not waiters.parked()
        reached.append(dhaga.current())
        try:
            dhaga.sleep(10)
        finally:
            reached.append("cancelled")

    with virtual_clock():
        lock = Lock()
        waiters = WaitQueue(lock, "test.wait")
        sleeper = dhaga.spawn(waits)
        dhaga.sleep(1)
        sleeper.cancel()
        dhaga.sleep(1)
        assert reached == [sleeper, "cancelled"] and sleeper.wait_target is None


@pytest.mark.parametrize("outer_is_woken", [False, True])
def test_a_plain_thread_has_two_parks_too(outer_is_woken: bool) -> None:
    lock, event, results = Lock(), Event(), []

    def finalizer() -> None:
        if outer_is_woken:
            event.set()
        with lock:
            results.append("finalized")

    def waits() -> None:
        waiters = event._waiters_
        append, calls = type(waiters).append, [finalizer]

        class Collecting(type(waiters)):
            def append(self, ticket: Any) -> None:
                append(self, ticket)
                calls.pop()()

        event._waiters_ = event_queue = Collecting(event, "event.wait")
        event._spare_queue_ = waiters
        results.append(event.wait(0.2))
        assert not event_queue.parked()

    with lock:
        thread = threading.Thread(target=waits)
        thread.start()
        time.sleep(0.05)
        results.append("released")
    thread.join()
    assert results == ["released", "finalized", outer_is_woken]


def in_thread(fn: Call) -> Any:
    return dhaga.offload(fn)


class CollectingQueue(WaitQueue):
    """A queue that calls a finalizer once, just after a waiter has joined it."""

    __slots__ = ("finalizers",)

    finalizers: list[Call]

    def append(self, ticket: Any) -> None:
        super().append(ticket)
        if self.finalizers:
            self.finalizers.pop()()


def collect_in_queue_of(lock: Lock | RLock, finalizer: Call) -> None:
    """Call a finalizer just after the next waiter has joined the lock's queue."""
    lock._waiters = queue_of_lock = CollectingQueue(lock, "lock.acquire")
    queue_of_lock.finalizers = [finalizer]


class Holder:
    """An OS thread that holds a lock until it is told to let go."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.held, self.told = lock, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.hold)
        self.thread.start()
        self.held.wait()

    def hold(self) -> None:
        with self.lock:
            self.held.set()
            self.told.wait()

    def let_go(self) -> None:
        self.told.set()
        self.thread.join()


@pytest.mark.parametrize("call", [in_dhaga, in_main_code, in_thread])
def test_a_finalizer_may_acquire_an_rlock_that_was_just_handed_to_its_caller(call: Any) -> None:
    lock, results = RLock(), []
    holder = Holder(lock)

    def finalizer() -> None:
        holder.let_go()
        assert lock._is_owned() and not lock._waiters
        with lock, lock:
            results.append(lock._recursion_count())

    def waits() -> None:
        with lock:
            results.append(lock._recursion_count())

    collect_in_queue_of(lock, finalizer)
    call(waits)
    assert results == [3, 1] and not lock.locked()


@pytest.mark.parametrize("call", [in_dhaga, in_main_code, in_thread])
@pytest.mark.parametrize("kind", [Lock, RLock])
def test_a_finalizer_gets_a_lock_before_its_caller_that_waits_for_the_same_lock(call: Any, kind: Any) -> None:
    lock, results = kind(), []
    holder = Holder(lock)

    def acquires(name: str) -> None:
        with lock:
            results.append(name)

    def finalizer() -> None:
        threading.Thread(target=let_go_once_two_wait).start()
        acquires("finalizer")

    def let_go_once_two_wait() -> None:
        while lock._waiters.parked() < 2:
            time.sleep(0.001)
        holder.let_go()

    collect_in_queue_of(lock, finalizer)
    call(lambda: acquires("caller"))
    assert results == ["finalizer", "caller"] and not lock.locked()


@pytest.mark.parametrize("call", [in_dhaga, in_main_code, in_thread])
def test_a_finalizer_gets_a_lock_before_its_caller_that_was_notified(call: Any) -> None:
    """The caller arrived at the condition before the finalizer arrived at the lock."""
    condition, results = Condition(), []
    lock: RLock = condition._lock

    def finalizer() -> None:
        other = threading.Thread(target=notify_once_the_finalizer_waits)
        other.start()
        held.wait()
        with condition:
            results.append("finalizer")

    def notify_once_the_finalizer_waits() -> None:
        with condition:
            held.set()
            while not lock._waiters.parked():
                time.sleep(0.001)
            condition.notify()

    def waits() -> None:
        with condition:
            release_save = condition._release_save

            def release_and_collect() -> Any:
                saved = release_save()
                finalizer()
                return saved

            condition._release_save = release_and_collect
            condition.wait()
            results.append("caller")

    held = threading.Event()
    call(waits)
    assert results == ["finalizer", "caller"] and not lock.locked()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_finalizer_on_the_hub_is_told_that_it_cannot_park_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, errors = Lock(), []

    class Connection:
        def __del__(self) -> None:
            try:
                with lock:
                    pass
            except dhaga.ParkError as error:
                errors.append(str(error))
                dhaga.spawn(errors.append, "handed over")

    with virtual_clock():
        with lock:
            connections = [Connection()]
            dhaga.current().scheduler.loop.call_soon(connections.clear)
            dhaga.sleep(1)
    assert len(errors) == 2 and errors[1] == "handed over"
    assert errors[0].startswith(
        "test_a_finalizer_on_the_hub_is_told_that_it_cannot_park_and_what_to_do.<locals>.Connection.__del__"
    )
    assert "dhaga.spawn(fn, ...)" in errors[0]
