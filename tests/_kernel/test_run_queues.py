"""Priorities: HIGH runs next, LOW when no other dhaga can, and none starves."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import dhaga
from dhaga import HIGH, LOW, NORMAL, priority
from dhaga._kernel.run import lap
from dhaga.testing import settle, virtual_clock

in_order = pytest.mark.skipif("config.getoption('--dhaga-seed') is not None", reason="the run queue is shuffled")


def parked(trace: list[str], name: str, level: dhaga.Priority) -> dhaga.Dhaga:
    """Return a dhaga that notes its name when it is woken."""

    def waits() -> None:
        dhaga.park("its turn")
        trace.append(name)

    return dhaga.spawn(waits, priority=level)


@in_order
def test_a_high_dhaga_that_is_woken_runs_next_and_a_low_one_last() -> None:
    trace: list[str] = []
    with virtual_clock():
        dhagas = [parked(trace, f"{level.name}{n}", level) for n in range(2) for level in (LOW, NORMAL, HIGH)]
        settle()
        for d in dhagas:
            d.wake()
        settle()
    assert trace == ["HIGH0", "HIGH1", "NORMAL0", "NORMAL1", "LOW0", "LOW1"]


@in_order
def test_a_new_dhaga_starts_by_its_priority() -> None:
    trace: list[str] = []
    with virtual_clock():
        for n in range(2):
            for level in (LOW, NORMAL, HIGH):
                dhaga.spawn(trace.append, f"{level.name}{n}", priority=level)
        settle()
    assert trace == ["HIGH0", "HIGH1", "NORMAL0", "NORMAL1", "LOW0", "LOW1"]


@in_order
def test_a_block_has_its_priority_and_gives_it_back() -> None:
    seen = []

    def changes() -> None:
        me = dhaga.current()
        seen.append(me.priority)
        with priority(HIGH):
            seen.append(me.priority)
            with pytest.raises(ZeroDivisionError), priority(LOW):
                seen.append(me.priority)
                raise ZeroDivisionError
            seen.append(me.priority)
            seen.append(dhaga.spawn(int).priority)
        seen.append(me.priority)

    with virtual_clock():
        dhaga.spawn(changes).join()
    assert seen == [NORMAL, HIGH, LOW, HIGH, NORMAL, NORMAL]


@in_order
def test_the_main_code_may_be_high() -> None:
    """It joins the first of two dhagas: woken by the end of the first, main code runs before the second."""
    trace: list[str] = []
    with virtual_clock(), priority(HIGH):
        first = dhaga.spawn(trace.append, "first")
        second = dhaga.spawn(trace.append, "second")
        first.join()
        trace.append("main code")
        second.join()
    assert trace == ["first", "main code", "second"]


def test_high_main_code_that_yields_lets_the_others_have_a_turn() -> None:
    turns = 0

    def take_turns() -> None:
        nonlocal turns
        while True:
            dhaga.sleep(0)
            turns += 1

    other = dhaga.spawn(take_turns)
    with priority(HIGH):
        for _ in range(20):
            dhaga.sleep(0)
    other.cancel()
    other.join()
    assert turns >= 18


@in_order
@pytest.mark.parametrize("level", [HIGH, NORMAL])
def test_who_yields_lets_everybody_have_a_turn_but_the_low(level: dhaga.Priority) -> None:
    trace: list[str] = []

    def runs(name: str) -> None:
        for n in range(2):
            trace.append(f"{name}{n}")
            dhaga.sleep(0)

    with virtual_clock():
        dhaga.spawn(runs, "low", priority=LOW)
        dhaga.spawn(runs, "a", priority=level)
        dhaga.spawn(runs, "b")
        settle()
    assert trace == ["a0", "b0", "a1", "b1", "low0", "low1"]


def test_a_low_dhaga_alone_may_yield() -> None:
    turns = []

    def yields() -> None:
        for n in range(100):
            dhaga.sleep(0)
            turns.append(n)

    with virtual_clock():
        dhaga.spawn(yields, priority=LOW).join()
        with priority(LOW):  # only the main code
            yields()
    assert turns == [*range(100)] * 2


def test_low_dhagas_take_turns_with_timers_and_the_loop() -> None:
    """A LOW dhaga that only yields holds up neither sleepers nor callbacks."""
    seen: list[str] = []

    def spins() -> None:
        while len(seen) < 2:
            dhaga.sleep(0)

    low = dhaga.spawn(spins, priority=LOW)
    dhaga.spawn(lambda: dhaga.sleep(0.002) or seen.append("sleeper"))
    dhaga.current().scheduler.loop.call_later(0.001, seen.append, "callback")
    low.join()
    assert sorted(seen) == ["callback", "sleeper"]


@in_order
@pytest.mark.parametrize("busy", [HIGH, NORMAL])
@pytest.mark.parametrize("level", [NORMAL, LOW])
def test_nobody_starves(level: dhaga.Priority, busy: dhaga.Priority) -> None:
    """While two wake each other without an end, each lap has a turn for the others."""
    turns = 0
    switches = 0

    def plays(other: list[Any]) -> None:
        nonlocal switches
        while turns < 3:
            switches += 1
            other[0].wake()
            dhaga.park("the other")
        other[0].wake()

    def takes_turns() -> None:
        nonlocal turns
        for _ in range(3):
            turns += 1
            dhaga.sleep(0)

    with virtual_clock():
        black: list[Any] = []
        white = [dhaga.spawn(plays, black, priority=busy)]
        black.append(dhaga.spawn(plays, white, priority=busy))
        dhaga.sleep(0)
        dhaga.spawn(takes_turns, priority=level).join()
    assert switches <= 9 * lap.SWITCHES_PER_CLOCK_CHECK * lap.CLOCK_CHECKS_PER_LAP


def test_a_wake_by_another_thread_counts_the_priority() -> None:
    """A sleeping scheduler is woken for each priority, also for LOW."""
    for level in dhaga.Priority:
        with dhaga.Scheduler() as scheduler:
            dhagas = [scheduler.spawn(dhaga.park, "thread", priority=level) for _ in range(100)]
            while any(d.state != "WAITING" for d in dhagas):
                threading.Event().wait(0.001)
            thread = threading.Thread(target=lambda ds=dhagas: [d.wake(n) for n, d in enumerate(ds)])
            thread.start()
            assert [d.result(timeout=60) for d in dhagas] == [*range(100)]
            thread.join()


@pytest.mark.parametrize("wrong", [0, 1, "HIGH", None, True])
def test_what_is_no_priority_is_refused(wrong: Any) -> None:
    with virtual_clock():
        with pytest.raises(TypeError, match=r"dhaga\.HIGH, dhaga\.NORMAL or dhaga\.LOW"):
            dhaga.spawn(int, priority=wrong)
        with pytest.raises(TypeError, match=r"dhaga\.HIGH, dhaga\.NORMAL or dhaga\.LOW"), priority(wrong):
            pass
        assert not dhaga.current().scheduler.live
