"""Condition: waits that give the lock back, and take it again whatever ends them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dhaga
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Condition, Lock, RLock
from tests.kit.parking import parked, victim


@pytest.fixture(params=["Lock", "RLock", "another kind"])
def condition(request: pytest.FixtureRequest) -> Condition:
    class OfAnotherKind:
        def __init__(self) -> None:
            lock = Lock()
            self.acquire, self.release = lock.acquire, lock.release

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    return Condition({"Lock": Lock, "RLock": RLock, "another kind": OfAnotherKind}[request.param]())


def test_notify_wakes_the_longest_waiting_ones_in_order(condition: Condition) -> None:
    """On a lock of another kind those notified together take it back in any order."""
    woken: list[int] = []
    trace: list[object] = []
    with virtual_clock():

        def waits(n: int) -> None:
            with condition:
                assert condition.wait() is True
                woken.append(n)

        dhagas = [parked(waits, n) for n in range(6)]
        for many in (1, 2, 9):
            with condition:
                condition.notify(many)
                settle()
                assert not woken  # nobody goes on before the lock is given back
            settle()
            trace.append(woken[:] if condition._owned_lock_ else sorted(woken))
            woken.clear()
        for d in dhagas:
            d.join()
    assert trace == [[0], [1, 2], [3, 4, 5]]


def test_notify_all_wakes_everybody_who_waits_now(condition: Condition) -> None:
    woken: list[int] = []
    with virtual_clock():

        def waits(n: int) -> None:
            with condition:
                condition.wait()
                woken.append(n)

        dhagas = [parked(waits, n) for n in range(3)]
        with condition:
            condition.notify_all()
            condition.wait(1)  # comes after, and is not notified
        for d in dhagas:
            d.join()
    assert sorted(woken) == [0, 1, 2]


def test_a_notify_that_nobody_waits_for_is_forgotten(condition: Condition) -> None:
    with virtual_clock() as clock:
        with condition:
            condition.notify()
            condition.notify_all()
            assert condition.wait(3) is False
        assert clock() == 3


def test_a_wait_ends_at_its_second_exactly_with_the_lock_held(condition: Condition) -> None:
    trace: list[object] = []
    with virtual_clock() as clock:

        def waits(timeout: float) -> None:
            with condition:
                trace.append((condition.wait(timeout), clock(), condition._is_owned()))

        dhagas = [parked(waits, timeout) for timeout in (4, 2, 0, -1)]
        for d in dhagas:
            d.join()
    assert trace == [(False, 0, True), (False, 0, True), (False, 2, True), (False, 4, True)]


def test_a_wait_whose_time_is_up_waits_for_the_lock_all_the_same(condition: Condition) -> None:
    with virtual_clock() as clock:

        def waits() -> object:
            with condition:
                return condition.wait(2), clock()

        d = parked(waits)
        with condition:
            dhaga.sleep(5)
        assert d.result() == (False, 5)


def test_wait_for_returns_the_value_of_its_predicate(condition: Condition) -> None:
    state: list[int] = []
    with virtual_clock() as clock:

        def waits(many: int, timeout: float | None) -> object:
            with condition:
                return condition.wait_for(lambda: len(state) >= many and state[:many], timeout), clock()

        dhagas = [parked(waits, *args) for args in ((2, None), (9, 2.5), (1, 9))]
        for n in range(3):
            dhaga.sleep(1)
            with condition:
                state.append(n)
                condition.notify_all()
        assert [d.result() for d in dhagas] == [([0, 1], 2), (False, 2.5), ([0], 1)]


def test_a_cancel_while_waiting_is_raised_with_the_lock_held_and_takes_no_notify(condition: Condition) -> None:
    trace: list[str] = []
    with virtual_clock():

        def waits(name: str) -> None:
            with condition:
                try:
                    condition.wait()
                except dhaga.Cancelled:
                    assert condition._is_owned()
                    trace.append(f"{name} cancelled")
                    raise
                trace.append(f"{name} notified")

        first, second = parked(waits, "first"), parked(waits, "second")
        with condition:
            first.cancel()
            settle()
            assert not first.has_ended  # it waits for the lock
            condition.notify()
        first.join()
        second.join()
    assert sorted(trace) == ["first cancelled", "second notified"]


def test_cancels_while_it_takes_the_lock_back_stay_pending_until_the_next_park(condition: Condition) -> None:
    trace: list[str] = []
    with virtual_clock():

        def waits() -> None:
            with condition:
                try:
                    condition.wait()
                except dhaga.Cancelled as error:
                    trace.append(f"{error.args[0]}, held: {condition._is_owned()}")
                for _ in range(2):
                    try:
                        dhaga.sleep(1)
                    except dhaga.Cancelled as error:
                        trace.append(error.args[0])

        d = parked(waits)
        with condition:
            for reason in ("first", "second", "third"):
                d.cancel(reason)
                settle()
        d.join()
    assert trace == ["first, held: True", "second", "third"]


@pytest.mark.parametrize("steps", [("notify", "cancel"), ("cancel", "notify")])
def test_a_cancel_just_before_or_after_the_notify_costs_nobody_the_notify(
    condition: Condition, steps: tuple[str, str]
) -> None:
    """Who was notified goes on, or the next one does."""
    notified: list[str] = []
    with virtual_clock():

        def waits(name: str) -> None:
            with condition:
                assert condition.wait()
                notified.append(name)

        first, second = parked(waits, "first"), parked(waits, "second")
        with condition:
            for step in steps:
                getattr(first if step == "cancel" else condition, step)()
        first.join()
        settle()
        assert len(notified) == 1
        with condition:
            condition.notify_all()
        second.join()
    assert notified in (["first", "second"], ["second"])


def test_a_cancel_after_the_notify_stays_pending_until_the_next_park() -> None:
    trace: list[str] = []
    with virtual_clock():
        condition = Condition()

        def waits() -> None:
            with condition:
                assert condition.wait()
                trace.append("notified")
                try:
                    dhaga.sleep(1)
                finally:
                    trace.append("cancelled")

        d = parked(waits)
        with condition:
            condition.notify()
            d.cancel()
            settle()
            trace.append("given back")
        d.join()
    assert trace == ["given back", "notified", "cancelled"]


def test_no_notify_or_lock_is_lost_at_whatever_park_one_is_cancelled(condition: Condition) -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        tickets: list[int] = []
        used: list[int] = []
        mine = type(condition)(type(condition._lock)())

        def consumes(after: float, many: int) -> None:
            dhaga.sleep(after)
            for _ in range(many):
                with mine:
                    while not tickets:
                        mine.wait()
                    used.append(tickets.pop(0))

        def produces() -> None:
            for n in range(4):
                dhaga.sleep(1)
                with mine:
                    tickets.append(n)
                    mine.notify()

        def finishes() -> None:
            dhaga.sleep(10)  # the others have used theirs by then
            with mine:
                tickets.extend((4, 5))
                mine.notify_all()

        def check() -> None:
            assert sorted(used + tickets) == list(range(6)) and used == sorted(used)
            assert len(used) >= 4  # what the victim did not take went to the others
            assert mine.acquire(False)
            mine.release()
            assert not mine._waiters.parked() and not mine._gates

        for after in (0.1, 0.3):
            dhaga.spawn(consumes, after, 2)
        dhaga.spawn(produces)
        dhaga.spawn(finishes)
        return victim(consumes, 0.2, 2), check

    assert cancel_at_every_park(scenario) >= 3


def test_a_condition_without_its_lock_refuses(condition: Condition) -> None:
    for use in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(RuntimeError, match="un-acquired lock"):
            use()


def test_an_rlock_held_twice_is_given_back_and_taken_back_twice() -> None:
    with virtual_clock():
        condition = Condition()

        def waits() -> str:
            with condition, condition:
                assert condition.wait()
                return repr(condition)

        d = parked(waits, name="d")
        with condition:
            condition.notify()
        assert d.result() == "<Condition on <RLock held by d 2 times, 0 parked>, 0 parked>"


def test_a_condition_tells_whether_its_lock_is_held(condition: Condition) -> None:
    if not hasattr(condition._lock, "locked"):
        with pytest.raises(AttributeError):
            condition.locked()
        return
    with condition:
        assert condition.locked()
    assert not condition.locked()


def test_the_repr_of_a_condition_tells_how_many_wait(condition: Condition) -> None:
    with virtual_clock():

        def waits() -> None:
            with condition:
                condition.wait()

        dhagas = [parked(waits), parked(waits)]
        assert repr(condition) == f"<Condition on {condition._lock!r}, 2 parked>"
        with condition:
            condition.notify_all()
        for d in dhagas:
            d.join()
        assert repr(condition) == f"<Condition on {condition._lock!r}, 0 parked>"
