"""Finalizers that park: in the middle of a park of a dhaga, of main code or of a plain thread, and on the hub."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga import queue, socket
from dhaga.testing import virtual_clock
from dhaga.threading import Condition, Event, Lock, RLock, Semaphore

Call = Callable[[], Any]


def finalize_in_park_of(waits: Callable[[], Any], finalizer: Call) -> Any:
    """Call ``waits()``, and ``finalizer()`` when it is parked, about to switch away, at a look at the clock."""
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
    """What a finalizer may wait for: all is held, and let go after a second."""

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
        self.holder = dhaga.spawn(self.hold)
        dhaga.sleep(0)

    def hold(self) -> None:
        with self.lock, self.rlock:
            dhaga.sleep(1)
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
        dhaga.sleep(1)
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
    """The outer park is woken, if at all, after the inner one, or (early) before its end."""
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

        class Collecting(type(waiters)):  # type: ignore[misc]
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
    thread.join()
    assert results == ["finalized", outer_is_woken]


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
