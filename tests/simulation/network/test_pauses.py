"""Hosts that stand still, and slow ones: none of their threads runs, and all go on later."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import dhaga
from dhaga.simulation import Settings, Simulation, check_determinism, current, search
from dhaga.simulation._search.outcome import Order
from dhaga.simulation._search.search import run_one

HOSTS = {"one": "", "two": ""}


def ticking(times: list[float]) -> None:
    for _ in range(5):
        time.sleep(1)
        times.append(now())


def now() -> float:
    return round(time.monotonic() - current().run.began_at, 3)


def test_the_threads_of_a_paused_host_stand_and_its_timers_expire_late() -> None:
    one: list[float] = []
    two: list[float] = []
    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.spawn(ticking, one)
        world.network.host("two").spawn(ticking, two)
        time.sleep(1.5)
        host.pause(10)
    assert one == [1, 11.5, 12.5, 13.5, 14.5] and two == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("tick", "before", "seconds"), [(0.005, 0.008, 0.027), (0.001, 0.022, 0.417)])
def test_a_pause_ends_whatever_the_rounding_of_its_tick(tick: float, before: float, seconds: float) -> None:
    ends: list[float] = []
    with Simulation(1, preempt=None) as world:
        world.network.tick = tick
        host = world.network.host("one")
        time.sleep(before)
        end = world.network.clock.now + seconds
        host.pause(seconds)
        assert math.ceil(end / tick) * tick < end  # otherwise these numbers test nothing
        host.spawn(lambda: ends.append(world.network.clock.now))
        time.sleep(1)
    assert ends == [end]


def test_each_kind_of_thread_stands_still_and_a_longer_pause_goes_on() -> None:
    did: list[tuple[str, float]] = []
    go = threading.Event()

    def main() -> None:
        def note(name: str) -> None:
            did.append((name, now()))

        def take(name: str) -> None:
            go.wait()
            note(name)

        dhaga.spawn(take, "high", priority=dhaga.HIGH)
        dhaga.spawn(take, "low", priority=dhaga.LOW)
        threading.Thread(target=take, args=("normal",)).start()
        threading.Timer(5, note, ("timer",)).start()
        while now() < 1:
            time.sleep(0)
        note("yields")

    with Simulation(1, preempt=None, keep=None) as world:
        host = world.network.host("one")
        host.spawn(main)
        time.sleep(0.5)
        host.pause(10)
        host.pause(3)
        started = host.spawn(lambda: did.append(("new", now())))
        go.set()
        time.sleep(5)
        assert did == [] and started.is_alive() and "5 threads held" in repr(world.network.pauses)
        told = [event.what for event in world.run.log.kept]
        assert told.count("pauses one for 10 s") == 1 and "lets one go on" not in told
    assert {name for name, _ in did} == {"new", "high", "low", "normal", "timer", "yields"}
    assert all(moment == pytest.approx(10.5, abs=0.01) for _, moment in did)


def test_low_threads_that_can_run_stand_still_and_only_those_of_the_host() -> None:
    turns: list[tuple[str, float]] = []

    def take_turns(name: str) -> None:
        go.wait()
        for _ in range(3):
            turns.append((name, now()))
            dhaga.sleep(0)

    with Simulation(1, preempt=None) as world:
        go = threading.Event()
        one, two = world.network.host("one"), world.network.host("two")
        for name, host in (("a", one), ("b", one), ("c", two)):
            host.spawn(lambda name=name: dhaga.spawn(take_turns, name, priority=dhaga.LOW))
        time.sleep(1)
        go.set()
        one.pause(10)
        time.sleep(5)
        assert turns == [("c", 1.0)] * 3
        time.sleep(6)
    assert sorted(turns[3:]) == [("a", 11.0)] * 3 + [("b", 11.0)] * 3


def test_a_low_thread_of_a_slow_host_waits_for_each_turn() -> None:
    turns: list[float] = []

    def take_turns() -> None:
        for _ in range(3):
            dhaga.sleep(0)
            turns.append(now())

    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.slow_down(2)
        host.spawn(lambda: dhaga.spawn(take_turns, priority=dhaga.LOW))
        time.sleep(20)
    assert turns == [4, 6, 8]


def test_a_thread_that_pauses_its_own_host_waits_and_so_does_main_code() -> None:
    seen: list[float] = []

    def stop_itself() -> None:
        current().network.hosts.find("one").pause(7)
        seen.append(now())

    with Simulation(1, preempt=None) as world:
        world.network.host("one").spawn(stop_itself).join()
        world.network.hosts.first.pause(3)
        seen.append(now())
    assert seen == pytest.approx([7, 10], abs=0.02)


def test_bytes_arrive_during_a_pause_and_are_read_after_it() -> None:
    got: list[tuple[bytes, float]] = []

    def serve() -> None:
        with socket.create_server(("", 80)) as listener, listener.accept()[0] as peer:
            while data := peer.recv(100):
                got.append((data, now()))

    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.spawn(serve)
        time.sleep(1)
        with socket.create_connection(("one", 80)) as sock:
            host.pause(20)
            sock.sendall(b"hello")
            time.sleep(5)
    assert [data for data, _ in got] == [b"hello"] and got[0][1] >= 21


def test_a_killed_host_starts_again_without_its_pause() -> None:
    times: list[float] = []
    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.start(ticking, times)
        time.sleep(0.5)
        host.pause(1000)
        time.sleep(5)
        host.restart()
        time.sleep(1.5)
        assert times == [6.5]
        time.sleep(10)


def test_a_slow_host_goes_on_later_after_each_wake_for_a_time() -> None:
    times: list[float] = []
    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.spawn(ticking, times)
        host.slow_down(0.5, seconds=3.5)
        time.sleep(20)
    assert times == pytest.approx([1.5, 3, 4, 5, 6], abs=0.02)


def test_the_end_of_a_slow_down_does_not_end_a_later_one() -> None:
    times: list[float] = []
    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.slow_down(0.1, seconds=2)
        host.slow_down(0.5, seconds=5)
        host.spawn(ticking, times)
        time.sleep(20)
    assert times == pytest.approx([1.5, 3, 4.5, 5.5, 6.5], abs=0.02)


def test_a_failure_and_the_end_of_a_run_wait_for_no_pause() -> None:
    def fail() -> None:
        time.sleep(1)
        raise KeyError("gone")

    with pytest.raises(KeyError), Simulation(1, preempt=None) as world:
        world.network.host("two").spawn(fail)
        world.network.hosts.first.pause(1000)
    assert world.clock.now < world.run.began_at + 2
    with Simulation(1, preempt=None) as world:
        host = world.network.host("one")
        host.spawn(time.sleep, 1, daemon=True)
        time.sleep(0.5)
        host.pause(1000)
        time.sleep(1)
    assert world.clock.now < world.run.began_at + 20


# ---- between two lines

PAUSE = {"kind": "pause", "host": "one", "every": 5, "seconds": [5, 20]}


def look_then_act() -> None:
    """The holder of a lease of 3 s looks at the clock, then acts."""

    def hold() -> None:
        for _ in range(10):
            ends_at = now() + 3
            while now() < ends_at:
                assert now() < ends_at + 1, "acts too late"
                time.sleep(1)

    current().network.hosts.find("one").spawn(hold, name="holder")


def test_a_pause_falls_between_two_lines_and_its_report_names_the_line() -> None:
    settings = Settings(strategy=dhaga.simulation.PCT(2), stalls=0, faults={"hosts": HOSTS, "faults": [PAUSE]})
    failure = search(look_then_act, 100, settings).failures[0]
    assert failure.kind == "AssertionError" and "holder is paused before test_pauses.py" in failure.report
    replayed = run_one(look_then_act, settings, Order(failure.seed, failure.switches, failure.faults))
    assert (replayed.kind, replayed.hash) == (failure.kind, failure.hash)
    assert not search(look_then_act, 20, Settings(stalls=0, faults={"hosts": HOSTS})).failures


def test_a_report_with_lines_shows_the_source_of_the_line_before_which_a_thread_is_paused() -> None:
    settings = Settings(strategy=dhaga.simulation.PCT(2), stalls=0, faults={"hosts": HOSTS, "faults": [PAUSE]})
    failure = search(look_then_act, 100, settings).failures[0]
    order = Order(failure.seed, failure.switches, failure.faults, keep_lines=True)
    report = run_one(look_then_act, settings, order).report
    found = re.search(r"holder is paused before test_pauses\.py:(\d+)  (.+); .* runs", report)
    assert found is not None, report
    number, source = found.groups()
    assert source == Path(__file__).read_text().splitlines()[int(number) - 1].strip()


def test_a_seed_pauses_at_the_same_line_twice() -> None:
    settings = Settings(faults={"hosts": HOSTS, "faults": [PAUSE]})
    for seed in range(5):
        check_determinism(look_then_act, seed, settings)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "long"])
def test_a_pause_lasts_for_a_number_of_seconds(seconds: Any) -> None:
    with Simulation(1) as world, pytest.raises(ValueError, match="a pause is a number of seconds above 0"):
        world.network.hosts.first.pause(seconds)
    with pytest.raises(ValueError, match=r"a fault pause lasts for seconds|seconds is a"):
        Simulation(1, faults={"hosts": HOSTS, "faults": [{**PAUSE, "seconds": seconds}]})


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan"), "long", (2, 1)])
def test_the_delay_of_a_slow_host_is_a_range_of_seconds(delay: Any) -> None:
    with Simulation(1) as world, pytest.raises(ValueError, match="delay is a"):
        world.network.hosts.first.slow_down(delay)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "long"])
def test_a_host_is_slow_for_a_number_of_seconds(seconds: Any) -> None:
    with Simulation(1) as world, pytest.raises(ValueError, match="seconds is a number above 0"):
        world.network.hosts.first.slow_down(0.5, seconds)
