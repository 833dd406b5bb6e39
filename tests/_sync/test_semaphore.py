"""Semaphore and BoundedSemaphore: no permit is lost, given twice, or given to one that came later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dhaga
from dhaga._kernel.wait.wait_queue import WaitQueue
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import BoundedSemaphore, Event, Semaphore
from tests.kit.parking import parked, victim

both = pytest.mark.parametrize("kind", [Semaphore, BoundedSemaphore])


@both
def test_as_many_as_there_are_permits_get_in_the_others_in_the_order_of_parking(kind: type[Semaphore]) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        semaphore = kind(2)

        def takes(n: int) -> None:
            with semaphore:
                trace.append((n, clock()))
                dhaga.sleep(1 + n / 10)

        for d in [parked(takes, n) for n in range(5)]:
            d.join()
        assert semaphore._value == 2
    assert trace == [(0, 0), (1, 0), (2, 1), (3, 1.1), (4, 2.2)]


@both
def test_who_comes_after_the_release_cannot_barge_in(kind: type[Semaphore]) -> None:
    trace: list[str] = []
    with virtual_clock():
        semaphore = kind()

        def takes(name: str) -> None:
            with semaphore:
                trace.append(name)

        semaphore.acquire()
        first = parked(takes, "first")
        semaphore.release()
        assert semaphore.acquire(blocking=False) is False
        assert semaphore.acquire(timeout=0) is False
        assert semaphore._value == 0  # as no other caller can acquire it
        takes("main code")
        first.join()
    assert trace == ["first", "main code"]


@both
def test_a_release_of_many_serves_the_first_ones_and_keeps_the_rest(kind: type[Semaphore]) -> None:
    trace: list[int] = []
    with virtual_clock():
        semaphore = kind(5)
        for _ in range(5):
            semaphore.acquire()

        def takes(n: int) -> None:
            semaphore.acquire()
            trace.append(n)

        dhagas = [parked(takes, n) for n in range(3)]
        semaphore.release(2)
        settle()
        assert sorted(trace) == [0, 1]
        semaphore.release(3)
        for d in dhagas:
            d.join()
        assert sorted(trace) == [0, 1, 2] and semaphore._value == 2


@both
def test_a_timeout_ends_at_its_second_exactly_and_leaves_the_queue(kind: type[Semaphore]) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        semaphore = kind()
        semaphore.acquire()

        def tries(timeout: float) -> None:
            trace.append((timeout, semaphore.acquire(timeout=timeout), clock()))

        dhagas = [parked(tries, timeout) for timeout in (5, 2.5, 12, 0, -1)]
        dhaga.sleep(10)
        semaphore.release()
        for d in dhagas:
            d.join()
        assert semaphore._value == 0 and not semaphore._waiters_.parked()
    assert trace == [(0, False, 0), (-1, False, 0), (2.5, False, 2.5), (5, False, 5), (12, True, 10)]


@both
def test_a_cancel_while_waiting_gives_the_place_up(kind: type[Semaphore]) -> None:
    trace: list[str] = []
    with virtual_clock():
        semaphore = kind()

        def takes(name: str) -> None:
            with semaphore:
                trace.append(name)

        semaphore.acquire()
        dhagas = [parked(takes, name) for name in "abc"]
        dhagas[0].cancel()
        settle()
        assert dhagas[0].has_ended and semaphore._waiters_.parked() == 2
        semaphore.release()
        for d in dhagas:
            d.join()
        assert semaphore._value == 1
    assert trace == ["b", "c"]


@both
def test_a_cancel_after_the_hand_over_stays_pending_and_loses_nothing(kind: type[Semaphore]) -> None:
    trace: list[str] = []
    with virtual_clock():
        semaphore = kind()

        def takes() -> None:
            with semaphore:
                trace.append("in")
                try:
                    dhaga.sleep(1)
                finally:
                    trace.append("cancelled")

        semaphore.acquire()
        d = parked(takes)
        semaphore.release()
        d.cancel()
        d.join()
        assert semaphore._value == 1
    assert trace == ["in", "cancelled"]


@both
def test_no_permit_is_lost_or_doubled_at_whatever_park_one_is_cancelled(kind: type[Semaphore]) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        semaphore = kind(2)
        inside: list[str] = []
        done: list[str] = []

        def uses(name: str, after: float) -> None:
            dhaga.sleep(after)
            for _ in range(2):
                if not semaphore.acquire():  # timed out
                    return
                inside.append(name)
                try:
                    assert len(inside) <= 2
                    dhaga.sleep(1)
                finally:
                    inside.remove(name)
                    semaphore.release()
            done.append(name)

        def check() -> None:
            assert {"a", "b", "c"} <= set(done) and not inside
            assert semaphore._value == 2 and not semaphore._waiters_.parked()

        for name, after in (("a", 0.1), ("b", 0.2), ("c", 0.4)):
            dhaga.spawn(uses, name, after)
        return victim(uses, "victim", 0.3), check

    assert cancel_at_every_park(scenario) == 5


def test_a_release_adds_a_permit_but_not_to_a_bounded_one() -> None:
    semaphore = Semaphore(0)
    semaphore.release(3)
    assert [semaphore.acquire(False) for _ in range(4)] == [True, True, True, False]
    bounded = BoundedSemaphore(2)
    with pytest.raises(ValueError, match="Semaphore released too many times"):
        bounded.release()
    bounded.acquire()
    with pytest.raises(ValueError, match="Semaphore released too many times"):
        bounded.release(2)
    bounded.release()
    assert bounded._value == 2


@both
def test_misuse_raises(kind: type[Semaphore]) -> None:
    with pytest.raises(ValueError, match="semaphore initial value must be >= 0"):
        kind(-1)
    semaphore = kind(1)
    for n in (0, -1):
        with pytest.raises(ValueError, match="n must be one or more"):
            semaphore.release(n)
    with pytest.raises(ValueError, match="can't specify timeout for non-blocking acquire"):
        semaphore.acquire(blocking=False, timeout=1)
    assert semaphore._value == 1


@both
def test_the_repr_tells_the_free_permits_and_who_waits(kind: type[Semaphore]) -> None:
    with virtual_clock():
        semaphore = kind(2)
        assert repr(semaphore) == f"<{kind.__name__} 2 free, 0 parked>"
        semaphore.acquire()
        semaphore.acquire()
        d = parked(semaphore.acquire)
        assert repr(semaphore) == f"<{kind.__name__} 0 free, 1 parked>"
        semaphore.release()
        d.join()


@both
@pytest.mark.parametrize("value", [2**31, 2**63 - 1, 2**63, 2**64, 10**30])
def test_any_number_of_permits_may_be_free(kind: type[Semaphore], value: int) -> None:
    permits = kind(value)

    def uses() -> None:
        assert permits.acquire() and permits.acquire(timeout=1)
        permits.release()
        with permits:
            assert permits._value == value - 2
        permits.release()

    dhaga.spawn(uses).result()
    assert permits._value == value


# ---- the condition inside


def test_a_semaphore_grows_by_its_inner_condition() -> None:
    with virtual_clock():
        permits = Semaphore(0)
        waits = [parked(permits.acquire) for _ in range(3)]
        with permits._cond:
            permits._value += 2
            permits._cond.notify(2)
        settle()
        assert [each.is_alive() for each in waits] == [False, False, True] and permits._value == 0
        permits.release()
        waits[2].join()
        assert permits._cond is permits._cond


def test_a_subclass_waits_by_the_inner_condition_of_a_semaphore() -> None:
    class Own(Semaphore):
        def take_two(self) -> bool:
            with self._cond:
                while self._value < 2:
                    if not self._cond.wait(9):
                        return False
                self._value -= 2
                return True

    with virtual_clock() as clock:
        permits = Own(0)
        pair = parked(permits.take_two)
        permits.release()
        permits.release()
        assert pair.result() is True and permits._value == 0 and clock() == 0
        assert parked(permits.take_two).result() is False and clock() == 9
        with pytest.raises(RuntimeError, match="un-acquired lock"):
            permits._cond.notify()


def test_a_release_ends_although_its_waiter_queues_up_again_at_once() -> None:
    class Hasty(WaitQueue):
        """Its waiters go on before the waker does, as in another OS thread."""

        wakes = 0

        def wake_first(self, value: Any = True) -> Any:
            self.wakes += 1
            assert self.wakes < 10
            woken = super().wake_first(value)
            settle()
            return woken

    def take_two() -> None:
        with permits._cond:
            while permits._value < 2:
                permits._cond.wait()
            permits._value -= 2

    with virtual_clock():
        permits = Semaphore(0)
        waiters = permits._waiters_ = Hasty(permits, "semaphore.acquire")
        pair = parked(take_two)
        permits.release()
        assert pair.is_alive() and permits._value == 1 and waiters.parked() == 1
        permits.release()
        pair.join()
        assert permits._value == 0


@pytest.mark.parametrize("primitive", [Semaphore, Event])
def test_a_change_between_the_check_and_the_wait_for_an_inner_condition_is_not_missed(primitive: Any) -> None:
    with virtual_clock() as clock:
        changed = primitive(0) if primitive is Semaphore else primitive()
        with changed._cond:
            (changed.release if primitive is Semaphore else changed.set)()
            assert changed._cond.wait(9) and clock() == 0
            assert not changed._cond.wait(9) and clock() == 9
            assert not changed._cond.wait(0)
        assert changed._waiters_.parked() == 0
        assert changed.acquire(timeout=0) if primitive is Semaphore else changed.is_set()
