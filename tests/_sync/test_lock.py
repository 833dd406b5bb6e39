"""Lock, RLock, Condition: handed over in the order of coming, and held by one at a time whatever is cancelled."""

from __future__ import annotations

import threading as os_threading
from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Lock, RLock
from tests.kit.parking import parked, victim

both = pytest.mark.parametrize("kind", [Lock, RLock])


def held_by_a_dhaga(lock: Any, until: float) -> dhaga.Dhaga:
    def holds() -> None:
        with lock:
            dhaga.sleep(until)

    return parked(holds, name="holder")


@both
def test_a_lock_is_handed_over_in_the_order_of_parking(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        lock = kind()

        def takes(n: int) -> None:
            with lock:
                trace.append((n, "in", clock()))
                dhaga.sleep(1)
                trace.append((n, "out", clock()))

        held_by_a_dhaga(lock, 10)
        for d in [parked(takes, n) for n in range(3)]:
            d.join()
        assert not lock.locked()
    assert trace == [
        (0, "in", 10),
        (0, "out", 11),
        (1, "in", 11),
        (1, "out", 12),
        (2, "in", 12),
        (2, "out", 13),
    ]


@both
def test_who_comes_after_the_release_cannot_barge_in(kind: Any) -> None:
    trace: list[str] = []
    with virtual_clock():
        lock = kind()

        def takes(name: str) -> None:
            with lock:
                trace.append(name)

        lock.acquire()
        first = parked(takes, "first")
        lock.release()  # first owns it from here, and has not run yet
        assert lock.acquire(blocking=False) is False and lock.locked()
        with lock:
            trace.append("main code")
        first.join()
    assert trace == ["first", "main code"]


@both
def test_a_lock_that_is_free_is_taken_without_letting_others_run(kind: Any) -> None:
    trace: list[str] = []
    with virtual_clock():
        d = dhaga.spawn(trace.append, "other")
        lock = kind()
        with lock:
            trace.append("in")
        assert lock.acquire() is True
        lock.release()
        trace.append("out")
        d.join()
    assert trace == ["in", "out", "other"]


@both
def test_a_timeout_ends_at_its_second_exactly_and_leaves_the_queue(kind: Any) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        lock = kind()
        holder = held_by_a_dhaga(lock, 10)

        def tries(timeout: float) -> None:
            got = lock.acquire(timeout=timeout)
            trace.append((timeout, got, clock()))
            if got:
                lock.release()

        dhagas = [parked(tries, timeout) for timeout in (5, 2.5, 12, 0)]
        for d in [holder, *dhagas]:
            d.join()
    assert trace == [(0, False, 0), (2.5, False, 2.5), (5, False, 5), (12, True, 10)]


@both
def test_arguments_are_checked_as_the_standard_does(kind: Any) -> None:
    standard: Any = os_threading.Lock if kind is Lock else os_threading.RLock
    for make in (kind, standard):
        for args, error in (
            ((False, 1), ValueError),
            ((True, -2), ValueError),
            ((True, os_threading.TIMEOUT_MAX * 2), OverflowError),
        ):
            with pytest.raises(error):
                make().acquire(*args)
        lock = make()
        assert lock.acquire(False) is True
        lock.release()
        assert lock.acquire(True, -1) is True
        lock.release()


@both
def test_a_cancel_while_waiting_gives_the_place_up(kind: Any) -> None:
    trace: list[str] = []
    with virtual_clock():
        lock = kind()

        def takes(name: str) -> None:
            with lock:
                trace.append(name)

        lock.acquire()
        dhagas = [parked(takes, name, name=name) for name in "abc"]
        dhagas[1].cancel()
        settle()
        assert repr(lock).endswith("2 parked>") and dhagas[1].has_ended
        lock.release()
        for d in dhagas:
            d.join()
    assert trace == ["a", "c"]


@both
def test_a_cancel_after_the_hand_over_stays_pending_and_loses_nothing(kind: Any) -> None:
    trace: list[str] = []
    with virtual_clock():
        lock = kind()

        def takes() -> None:
            with lock:
                trace.append("in")
                try:
                    dhaga.sleep(1)
                except dhaga.Cancelled as error:
                    trace.append(f"cancelled: {error.args[0]}")
                    raise

        lock.acquire()
        d = parked(takes)

        def inherits() -> None:
            with lock:
                trace.append("heir")

        heir = parked(inherits)
        lock.release()
        d.cancel("late")
        d.join()
        heir.join()
        assert lock.acquire(blocking=False)
        lock.release()
    assert trace == ["in", "cancelled: late", "heir"]


@both
def test_a_timeout_after_the_hand_over_does_not_take_the_lock_away(kind: Any) -> None:
    with virtual_clock() as clock:
        lock = kind()
        lock.acquire()
        d = parked(lambda: (lock.acquire(timeout=5), clock(), lock.release())[:2])
        lock.release()
        clock.now += 10  # the deadline passes before it runs
        assert d.result() == (True, 10)


@both
def test_no_lock_is_lost_or_held_by_two_at_whatever_park_one_is_cancelled(kind: Any) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        lock = kind()
        inside: list[str] = []
        done: list[str] = []

        def uses(name: str, after: float) -> None:
            dhaga.sleep(after)
            for _ in range(2):
                with lock:
                    inside.append(name)
                    try:
                        assert inside == [name]
                        dhaga.sleep(1)
                    finally:
                        inside.remove(name)
            done.append(name)

        def check() -> None:
            assert {"a", "b"} <= set(done) and not inside
            assert lock._holder is None and not lock._waiters.parked()

        dhaga.spawn(uses, "a", 0.1)
        dhaga.spawn(uses, "b", 0.3)
        return victim(uses, "victim", 0.2), check

    assert cancel_at_every_park(scenario) == 5


@both
def test_a_plain_os_thread_and_dhagas_hand_it_to_each_other(kind: Any) -> None:
    trace: list[str] = []
    lock = kind()

    def takes(name: str) -> None:
        with lock:
            trace.append(name)

    with lock:
        thread = os_threading.Thread(target=takes, args=("thread",))
        thread.start()
        while not lock._waiters.parked():
            dhaga.sleep(0)
        d = parked(takes, "dhaga")
    d.join()
    thread.join()
    assert trace == ["thread", "dhaga"]


def test_a_lock_may_be_released_by_anybody() -> None:
    with virtual_clock():
        lock = Lock()
        assert lock.acquire() and lock.locked()
        dhaga.spawn(lock.release).join()
        assert not lock.locked()


def test_release_of_an_unlocked_lock_raises() -> None:
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        Lock().release()
    with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
        RLock().release()


def test_an_rlock_is_taken_again_by_its_holder_and_free_after_as_many_releases() -> None:
    trace: list[object] = []
    with virtual_clock():
        lock = RLock()
        for _ in range(3):
            assert lock.acquire()

        def takes() -> None:
            with lock:
                trace.append("other")

        other = parked(takes)
        for n in (3, 2, 1):
            settle()
            trace.append(n)
            lock.release()
        other.join()
    assert trace == [3, 2, 1, "other"]


def test_an_rlock_is_released_by_nobody_but_its_holder() -> None:
    with virtual_clock():
        lock = RLock()
        lock.acquire()
        with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
            dhaga.spawn(lock.release).result()
        lock.release()
        with pytest.raises(RuntimeError, match="cannot release un-acquired lock"):
            lock.release()


def test_the_repr_tells_who_holds_it_and_how_many_wait() -> None:
    with virtual_clock():
        lock, rlock = Lock(), RLock()
        assert (repr(lock), repr(rlock)) == ("<Lock unlocked, 0 parked>", "<RLock unlocked, 0 parked>")

        def holds() -> None:
            with lock, rlock, rlock:
                dhaga.sleep(1)

        holder = parked(holds, name="holder")
        others = [parked(lock.acquire), parked(lock.acquire)]
        assert repr(lock) == "<Lock held by holder, 2 parked>"
        assert repr(rlock) == "<RLock held by holder 2 times, 0 parked>"
        for d in others:
            d.cancel()
            d.join()
        holder.join()
        with lock:
            assert repr(lock) == "<Lock held by main code, 0 parked>"
