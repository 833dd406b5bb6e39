"""The run: how its queue names the entries to the strategy, whichever kind they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dhaga
from dhaga.simulation import Simulation, _standard
from dhaga.simulation._switches import switches_from


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with _standard.replaced():
        yield


def order_of(seed: int, **arguments: object) -> list[str]:
    ran: list[str] = []
    with Simulation(seed, preempt=None, **arguments):  # type: ignore[arg-type]
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
