"""Event and Barrier: all who wait go on together, or all learn that they cannot."""

from __future__ import annotations

from collections.abc import Callable

import dhaga
from dhaga.testing import cancel_at_every_park, settle, virtual_clock
from dhaga.threading import Event
from tests.kit.parking import parked, victim


def test_a_set_wakes_everybody_who_waits_and_who_comes_later_does_not_park() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        event = Event()

        def waits(n: int) -> None:
            trace.append((n, event.wait(), clock()))

        dhagas = [parked(waits, n) for n in range(3)]
        dhaga.sleep(5)
        assert not event.is_set() and not trace
        event.set()
        assert event.is_set() and not trace  # set() lets nobody run
        waits(9)
        for d in dhagas:
            d.join()
    assert trace[0] == (9, True, 5)
    assert sorted(trace[1:]) == [(0, True, 5), (1, True, 5), (2, True, 5)]  # type: ignore[type-var]


def test_who_was_woken_goes_on_though_the_flag_is_cleared_at_once() -> None:
    with virtual_clock():
        event = Event()
        first = parked(event.wait)
        event.set()
        event.clear()
        second = parked(event.wait)
        assert first.result() is True
        assert second.state == "WAITING" and not event.is_set()
        event.set()
        assert second.result() is True


def test_a_timeout_ends_at_its_second_exactly() -> None:
    trace: list[object] = []
    with virtual_clock() as clock:
        event = Event()

        def waits(timeout: float) -> None:
            trace.append((timeout, event.wait(timeout), clock()))

        dhagas = [parked(waits, timeout) for timeout in (5, 2.5, 12, 0, -1)]
        dhaga.sleep(10)
        event.set()
        for d in dhagas:
            d.join()
        assert event.wait(0) is True
    assert trace == [(0, False, 0), (-1, False, 0), (2.5, False, 2.5), (5, False, 5), (12, True, 10)]


def test_a_cancel_ends_the_wait_of_one_alone() -> None:
    with virtual_clock():
        event = Event()
        dhagas = [parked(event.wait) for _ in range(3)]
        dhagas[1].cancel()
        settle()
        assert [d.has_ended for d in dhagas] == [False, True, False] and event._waiters_.parked() == 2
        event.set()
        assert dhagas[0].result() and dhagas[2].result()


def test_a_cancel_after_the_set_stays_pending_until_the_next_park() -> None:
    trace: list[object] = []
    with virtual_clock():
        event = Event()

        def waits() -> None:
            trace.append(event.wait())
            try:
                dhaga.sleep(1)
            finally:
                trace.append("cancelled")

        d = parked(waits)
        event.set()
        d.cancel()
        d.join()
    assert trace == [True, "cancelled"]


def test_nobody_is_forgotten_at_whatever_park_one_is_cancelled() -> None:
    def scenario() -> tuple[dhaga.Dhaga, Callable[[], None]]:
        event = Event()
        rounds: list[tuple[int, str]] = []

        def waits(name: str) -> None:
            dhaga.sleep(0.5)
            for n in range(2):
                assert event.wait()
                rounds.append((n, name))
                dhaga.sleep(0.5)  # the flag is cleared meanwhile

        def sets() -> None:
            for _ in range(2):
                dhaga.sleep(1)
                event.set()
                dhaga.sleep(0.2)
                event.clear()
            dhaga.sleep(1)
            event.set()  # for whoever is late

        def check() -> None:
            assert [entry for entry in sorted(rounds) if entry[1] != "victim"] == [(n, x) for n in (0, 1) for x in "ab"]
            assert not event._waiters_.parked() and event.is_set()

        dhaga.spawn(waits, "a")
        dhaga.spawn(waits, "b")
        dhaga.spawn(sets)
        return victim(waits, "victim"), check

    assert cancel_at_every_park(scenario) >= 4


def test_the_repr_of_an_event_tells_the_flag_and_who_waits() -> None:
    with virtual_clock():
        event = Event()
        d = parked(event.wait)
        assert repr(event) == "<Event unset, 1 parked>"
        event.set()
        d.join()
        assert repr(event) == "<Event set, 0 parked>"
        event.clear()
        assert repr(event) == "<Event unset, 0 parked>"


# ---- the condition inside


def test_a_subclass_waits_by_the_inner_condition_of_an_event() -> None:
    class AutoReset(Event):
        def wait(self, timeout: float | None = None) -> bool:
            with self._cond:
                if not self._flag and not self._cond.wait(timeout):
                    return False
                self._flag = False
                return True

    with virtual_clock() as clock:
        event = AutoReset()
        assert not event.wait(1) and clock() == 1
        waiter = parked(event.wait, 9)
        event.set()
        assert waiter.result() is True and not event.is_set() and clock() == 1
        event.set()
        assert event.wait(0) and not event.wait(0)


def test_a_notify_of_the_inner_condition_ends_waits_of_an_unset_event() -> None:
    with virtual_clock():
        event = Event()
        waits = [parked(event.wait) for _ in range(3)]
        with event._cond:
            event._cond.notify()
        assert waits[0].result() is True and waits[1].is_alive()
        with event._cond:
            event._cond.notify_all()
        assert [each.result() for each in waits] == [True] * 3 and not event.is_set()
