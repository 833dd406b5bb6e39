"""The figures of schedulers: counted as things happen."""

from __future__ import annotations

import math
import socket as standard
from typing import Any

import pytest

import dhaga
from dhaga import debug, socket
from dhaga.debug import _stats as sampling
from dhaga.debug._stats import BOUNDS, DelayHistogram
from dhaga.testing import settle, virtual_clock


def only() -> debug.SchedulerStats:
    (found,) = debug.stats().schedulers
    return found


def test_who_is_where_is_counted() -> None:
    with virtual_clock():
        dhagas = [dhaga.spawn(dhaga.sleep, 1) for _ in range(3)]
        settle()
        late = dhaga.spawn(int)
        found = only()
        each: dhaga.Dhaga[Any]
        for each in (*dhagas, late):
            each.join()
    assert (found.name, found.live, found.parked, found.runnable, found.timers) == ("virtual", 4, 3, 1, 3)


@pytest.mark.parametrize("yields", [1, 10, 31, 32, 33, 1000])
def test_every_switch_is_counted_once(yields: int) -> None:
    def work() -> None:
        for _ in range(yields):
            dhaga.sleep(0)

    with virtual_clock():
        dhaga.spawn(int).join()
        before = only().switches
        dhaga.spawn(work).join()
        after = only().switches
    overhead = 8 + yields // 32 * 2  # its start, the main code's turns, and the hub at the ends of laps
    assert yields < after - before <= yields + overhead


def test_expired_timers_and_the_share_of_busy_time_are_told() -> None:
    with virtual_clock() as clock:
        dhaga.sleep(1)
        dhaga.sleep(1)
        found = only()
        assert clock.now == 2
    assert found.timers_fired == 2
    assert found.seconds == 2
    assert found.busy == 0  # the virtual clock stands still while somebody runs


def test_events_of_file_descriptors_are_counted() -> None:
    one, other = socket.socketpair()
    with one, other:
        receiver = dhaga.spawn(one.recv, 10)
        dhaga.sleep(0)
        before = only().events
        standard.socket.send(other, b"x")
        receiver.join()
        assert only().events > before


def test_delays_are_sampled_while_a_watchdog_looks() -> None:
    def yields() -> None:
        while sum(only().delays) < 3:
            dhaga.sleep(0)

    with debug.watch(0.02):
        dhaga.spawn(yields).join()
        found = only()
    assert len(found.delays) == len(BOUNDS) + 1
    assert found.delay_seconds > 0


def test_a_scheduler_that_is_held_has_one_probe_in_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "histograms", {})
    with virtual_clock():
        scheduler = dhaga.current().scheduler
        for looks in (1, 2, 3):
            for _ in range(5):
                sampling.sample(scheduler)
            assert scheduler.count_runnable() == 1
            settle()
            assert scheduler.count_runnable() == 0
            assert sum(sampling.histograms[scheduler].counts) == looks


def test_a_histogram_knows_its_quantiles() -> None:
    delays = DelayHistogram()
    assert delays.quantile(0.5) == 0
    for seconds in (2e-6, 3e-6, 0.01, 100):
        delays.add(seconds)
    assert delays.quantile(0.5) == 4e-6
    assert delays.quantile(0.75) == pytest.approx(0.016384)
    assert delays.quantile(1) == math.inf
