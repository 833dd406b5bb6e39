"""The run: how its queue names the entries to the strategy, whichever kind they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import dhaga
from dhaga._kernel import originals
from dhaga._kernel.run.new_work import begin_new_work
from dhaga.simulation import Simulation
from dhaga.simulation._schedule.switches import switches_from
from dhaga.simulation._standard import standard


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


def order_of(seed: int, **arguments: object) -> list[str]:
    ran: list[str] = []
    with Simulation(seed, preempt=None, **arguments):
        for name in "abc":
            dhaga.spawn(ran.append, name, name=name)
    return ran


def test_new_dhagas_start_in_any_order() -> None:
    assert order_of(0, strategy="fifo") == [*"abc"]
    assert {"".join(order_of(seed, strategy="random")) for seed in range(40)} == {
        "abc",
        "acb",
        "bac",
        "bca",
        "cab",
        "cba",
    }


def test_switches_replay_an_order() -> None:
    with Simulation(0, preempt=None, strategy="random") as world:
        for name in "abc":
            dhaga.spawn(dhaga.sleep, 0, name=name)
    assert order_of(0, switches=switches_from("0/1>3,3/1>2")) == [*"cba"]
    assert all(not switch.preempts for switch in world.run.switches)


def test_high_dhagas_run_first_and_low_ones_last() -> None:
    ran: list[str] = []
    for seed in range(5):
        ran.clear()
        with Simulation(seed, strategy="random", preempt=None):
            for name, priority in (("low", dhaga.LOW), ("normal", dhaga.NORMAL), ("high", dhaga.HIGH)):
                dhaga.spawn(ran.append, name, priority=priority)
        assert ran == ["high", "normal", "low"]


def test_a_cancel_is_raised_at_the_next_park_and_not_at_a_preemption() -> None:
    def work() -> None:
        try:
            for _ in range(20):
                done.append(1)
            dhaga.sleep(1)
        except dhaga.Cancelled:
            done.append("cancelled")

    for seed in range(10):
        done: list[object] = []
        with Simulation(seed, strategy="random:0.5"):
            worker = dhaga.spawn(work)
            dhaga.sleep(0)
            worker.cancel()
        assert done in ([], [*[1] * 20, "cancelled"])


def test_a_yield_without_a_park_has_no_reason_of_an_earlier_park() -> None:
    gate = threading.Event()

    def work() -> None:
        gate.wait()
        begin_new_work()
        begin_new_work()  # yields, because a unit is in progress

    with Simulation(0, strategy="fifo", preempt=None) as world:
        dhaga.spawn(work, name="server")
        dhaga.sleep(1)
        gate.set()
        dhaga.spawn(dhaga.sleep, 0)
    names = [member.name for member in world.run.members.all]
    told = [event.what for event in world.run.log.kept if names[event.member] == "server"]
    assert told == ["waits for event.wait", "waits for sleep"]


def test_the_hub_runs_a_loop_that_no_dhaga_sees() -> None:
    with Simulation(0, preempt=None) as world:
        assert dhaga.spawn(lambda: world.scheduler.around_park).result() is None
        assert type(world.scheduler.loop) is originals.SelectorEventLoop
