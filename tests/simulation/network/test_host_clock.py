"""The wall clocks of hosts: skewed, drifting, set; and true time for all that waits."""

from __future__ import annotations

import datetime
import threading
import time
from typing import Any

import pytest

from dhaga.simulation import Simulation
from dhaga.simulation.network._host_clock import WallClock

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def shown() -> list[float]:
    """Return what all kinds of wall clocks show, in seconds since the run began."""
    return [
        time.time() - START.timestamp(),
        time.time_ns() / 1e9 - START.timestamp(),
        time.clock_gettime(time.CLOCK_REALTIME) - START.timestamp(),
        (datetime.datetime.now(datetime.UTC) - START).total_seconds(),
    ]


def test_each_host_has_a_wall_clock_of_its_own_and_its_threads_read_it() -> None:
    read: dict[str, list[float]] = {}

    def read_in_a_thread(name: str) -> None:
        thread = threading.Thread(target=lambda: read.update({name: shown()}))
        thread.start()
        thread.join()

    with Simulation(1, preempt=None) as world:
        for name, skew in (("one", 5), ("two", -7)):
            host = world.network.host(name)
            host.clock.set(skew=skew)
            host.spawn(read_in_a_thread, name).join()
        read["main"] = shown()
    assert read["one"] == pytest.approx([5] * 4, abs=1e-3)
    assert read["two"] == pytest.approx([-7] * 4, abs=1e-3)
    assert read["main"] == pytest.approx([0] * 4, abs=1e-3)


def test_a_clock_drifts_and_jumps_while_sleeps_and_monotonic_clocks_are_true() -> None:
    seen: list[float] = []

    def look() -> None:
        wall, monotonic = time.time(), time.monotonic()
        time.sleep(100)
        seen.extend([time.time() - wall, time.monotonic() - monotonic])

    with Simulation(1, preempt=None, keep=None) as world:
        host = world.network.host("shop")
        host.clock.set(drift=0.1)
        looking = host.spawn(look)
        time.sleep(50)
        host.clock.jump(-1000)
        looking.join()
        assert host.clock.ahead() == pytest.approx(-990)
        host.clock.set(drift=0)
        time.sleep(100)
        assert host.clock.ahead() == pytest.approx(-990)
        told = [event.what for event in world.run.log.kept]
    assert seen == pytest.approx([-890, 100], abs=1e-3)
    assert "sets the clock of shop by -1000 s" in told


def drawn(seed: int) -> list[float]:
    with Simulation(seed, preempt=None) as world:
        world.network.host("one")
        world.network.set_clocks(skew=(-1, 1), drift=(-0.01, 0.01))
        world.network.host("two")
        time.sleep(10)
        return [world.network.hosts.find(name).clock.ahead() for name in ("main", "one", "two")]


def test_the_seed_draws_the_clock_of_each_host() -> None:
    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert len(set(first)) == 3 and all(abs(ahead) < 1.2 for ahead in first)


def test_a_file_of_faults_sets_clocks_and_lets_them_jump() -> None:
    faults: dict[str, Any] = {
        "hosts": {"one": "", "two": ""},
        "clock": {"skew": 10},
        "clocks": [{"host": "two", "drift": 0.5}],
        "faults": [{"kind": "clock-jump", "host": "one", "at": 20, "by": [-100, -50]}],
    }
    with Simulation(1, preempt=None, faults=faults) as world:
        one, two = (world.network.hosts.find(name).clock for name in ("one", "two"))
        assert (one.ahead(), two.ahead()) == (10, 0)
        time.sleep(30)
        assert -90 <= one.ahead() <= -40 and two.ahead() == pytest.approx(15)
        assert [each.what for each in world.run.faults] == ["clock-jump of one"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"skew": "late"}, "skew is a number of seconds"),
        ({"skew": (2, 1)}, r"skew is a range \(lowest, highest\) of seconds, and not"),
        ({"skew": float("inf")}, "skew is a range"),
        ({"drift": -1}, "drift is a number of seconds a second above -1"),
    ],
)
def test_bad_settings_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WallClock(**settings)


def test_a_clock_does_not_jump_by_what_is_no_number() -> None:
    with Simulation(1) as world:
        with pytest.raises(ValueError, match="jumps by a number of seconds, and not by 'back'"):
            world.network.hosts.first.clock.jump("back")
        with pytest.raises(ValueError, match="a clock has skew, drift, and not 'rate'"):
            world.network.set_clocks(rate=1)
