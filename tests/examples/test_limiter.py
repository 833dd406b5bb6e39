"""The bandwidth is held, and the number of files in flight grows until something is used."""

from __future__ import annotations

import dataclasses
import random
import time
from types import SimpleNamespace
from typing import Any

import pytest

from examples.backup.limiter import CREDIT, WINDOW, Bandwidth, ConcurrencyControl, Sample
from examples.backup.workers import Unit


class Clock:
    """A clock that sleeping moves, and that oversleeps like a real one."""

    def __init__(self, oversleep: float = 0.0) -> None:
        self.now = 1000.0
        self._oversleep = oversleep
        self._chance = random.Random(7)

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds + self._chance.random() * self._oversleep


def on(clock: Clock, unit: Unit) -> Unit:
    """The unit, living by this clock."""
    face: Any = SimpleNamespace(sleep=clock.sleep, monotonic=lambda: clock.now)
    return dataclasses.replace(unit, time=face)


@pytest.mark.parametrize("rate", [5_000.0, 1e6, 250e6])
@pytest.mark.parametrize("oversleep", [0.0, 0.004])
def test_bandwidth_is_held_within_two_percent_whatever_sleep_adds(unit: Unit, rate: float, oversleep: float) -> None:
    clock = Clock(oversleep)
    bandwidth = Bandwidth(rate, on(clock, unit))
    began, passed = clock.now, 0
    while clock.now - began < 20:
        bandwidth.take(bandwidth.piece)
        passed += bandwidth.piece
    assert passed / (clock.now - began) == pytest.approx(rate, rel=0.02)
    assert bandwidth.passed == passed


def test_bandwidth_holds_for_workers_together(unit: Unit) -> None:
    bandwidth = Bandwidth(1e6, unit)
    group = unit.group(2, 8)
    began = time.monotonic()

    def work() -> None:
        for _ in range(25):
            bandwidth.take(1000)

    tasks = [group.start(work) for _ in range(16)]
    assert not unit.futures.wait(tasks, 10).not_done
    seconds = time.monotonic() - began
    group.stop(5)
    assert bandwidth.passed == 400_000
    assert seconds > 0.4 - CREDIT - 0.01  # what is above is the machine's


# ---- growth ----


def settle(growth: ConcurrencyControl, speed: Any, *, cpu: float = 0.0, size: int = 0, windows: int = 60) -> list[int]:
    """Let a job run whose requests a second are `speed(workers)`; give the number of workers after each window."""
    now, requests, used = 0.0, 0.0, 0.0
    counts = []
    for _ in range(windows):
        counts.append(growth.observe(Sample(now, int(requests), int(requests * size), used)))
        now += WINDOW
        requests += speed(counts[-1]) * WINDOW
        used += cpu * speed(counts[-1]) * WINDOW
    return counts


def test_growth_stops_where_the_bandwidth_is_used() -> None:
    growth = ConcurrencyControl(4, processors=2, rate=1e6)
    counts = settle(growth, lambda workers: min(workers * 10.0, 1e6 / 5000), size=5000)  # 20 workers suffice
    assert counts[0] == 4 and counts == sorted(counts)
    assert 20 <= counts[-1] <= 40


def test_growth_stops_where_the_processors_are_used() -> None:
    growth = ConcurrencyControl(4, processors=2)
    counts = settle(growth, lambda workers: min(workers * 10.0, 2000.0), cpu=0.001)  # 200 workers use two processors
    assert 200 <= counts[-1] <= 400
