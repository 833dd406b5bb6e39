"""Time is one of the choices: a deadline may come between two lines of a thread that computes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

import dhaga
from dhaga.simulation import Simulation
from dhaga.simulation._schedule.strategies import strategy_of
from dhaga.simulation._schedule.switches import switches_from
from dhaga.simulation._search.outcome import Order, Settings, run_here
from dhaga.simulation._search.search import search
from dhaga.simulation._search.shrink import shrink

pytestmark = pytest.mark.once

SEEDS = 300


def in_two_threads(one: Callable[[], None], other: Callable[[], None]) -> None:
    threads = [threading.Thread(target=each) for each in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sleep_ends_between_lines() -> None:
    busy = False

    def work() -> None:
        nonlocal busy
        for _ in range(20):
            busy = True
            busy = False

    def watch() -> None:
        time.sleep(0.001)
        assert not busy, "caught between the lines"

    in_two_threads(watch, work)


def lease_ends_between_check_and_act() -> None:
    holder, ends_at = "first", time.monotonic() + 0.5
    acted: list[str] = []

    def first() -> None:
        if holder == "first":
            acted.append("first")
            assert holder == "first", "acts after its lease"

    def second() -> None:
        nonlocal holder
        time.sleep(ends_at - time.monotonic())
        holder = "second"

    in_two_threads(second, first)


def timeout_of_a_lock_ends_while_its_holder_computes() -> None:
    lock, held = threading.Lock(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            for _ in range(5):
                pass

    def wait() -> None:
        held.wait()
        assert lock.acquire(timeout=0.25), "given up"
        lock.release()

    in_two_threads(wait, hold)


RACES = [sleep_ends_between_lines, lease_ends_between_check_and_act, timeout_of_a_lock_ends_while_its_holder_computes]


@pytest.mark.parametrize("strategy", ["mixed", "random", "random:0.3", "pct:3"])
@pytest.mark.parametrize("race", RACES)
def test_a_search_meets_a_deadline_between_two_lines(race: Callable[[], None], strategy: str) -> None:
    found = search(race, SEEDS, Settings(strategy_of(strategy)))
    assert [each.kind for each in found.failures][:1] == ["AssertionError"]


@pytest.mark.parametrize("race", RACES)
def test_without_stalls_and_in_plain_order_no_time_passes_there(race: Callable[[], None]) -> None:
    assert not search(race, 50, Settings(stalls=0)).failures
    assert not search(race, 5, Settings(strategy_of("fifo"))).failures


def test_every_schedule_has_those_in_which_time_passes() -> None:
    found = search(sleep_ends_between_lines, 1, Settings(strategy_of("exhaustive:1")))
    assert found.failures


@pytest.mark.parametrize("race", RACES)
def test_a_stall_is_replayed_and_is_all_that_a_small_run_has(race: Callable[[], None]) -> None:
    settings = Settings(strategy_of("mixed"))
    first = search(race, SEEDS, settings).failures[0]
    again = run_here(race, settings, Order(first.seed, first.switches))
    assert (again.hash, again.kind) == (first.hash, first.kind)
    small = shrink(race, settings, first)
    assert small.switches.endswith(">clock") and len(switches_from(small.switches)) <= 4
    assert "stands still for" in small.report


def test_the_threads_of_a_run_stand_still_for_so_long_at_most() -> None:
    def compute(ticks: list[float]) -> None:
        while not ticks:
            pass

    def tick(ticks: list[float]) -> None:
        for _ in range(10):
            time.sleep(0.01)
        ticks.append(time.monotonic())

    for seed in range(5):
        ticks: list[float] = []
        with Simulation(seed, strategy="random:0.2", stalls=0.055) as world:
            in_two_threads(partial(compute, ticks), partial(tick, ticks))
        stalled = [each for each in world.run.switches if str(each).endswith(">clock")]
        assert 1 <= len(stalled) <= 5


def test_a_cancel_and_a_timeout_stay_pending_while_a_thread_stands_still() -> None:
    for seed in range(10):
        with Simulation(seed, strategy="random:0.3"):
            done: list[int] = []

            def compute(done: list[int] = done) -> None:
                for number in range(50):
                    done.append(number)

            computing = dhaga.spawn(compute)
            dhaga.spawn(time.sleep, 0.001)
            dhaga.spawn(computing.cancel)
            computing.join()
        assert done in ([], list(range(50)))


@pytest.mark.parametrize("value", [-1, "1", True, None])
def test_stalls_are_a_number_of_seconds(value: object) -> None:
    with pytest.raises(ValueError, match="stalls is a number of seconds from 0"):
        Simulation(1, stalls=value)
