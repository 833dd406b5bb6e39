"""The clocks of the standard library show the virtual time."""

from __future__ import annotations

import datetime
import sched
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime as bound_class
from time import monotonic as bound_clock
from typing import Any

import pytest

from dhaga._kernel import originals
from dhaga.simulation import Simulation
from dhaga.simulation._standard import standard
from dhaga.testing import virtual_clock

HOUR = 3600.0


@pytest.fixture(autouse=True, scope="module")
def replaced_once() -> Iterator[None]:
    with standard.replaced():
        yield


CLOCKS: dict[str, Callable[[], float]] = {
    "time": lambda: time.time(),
    "time_ns": lambda: time.time_ns() / 1e9,
    "monotonic": lambda: time.monotonic(),
    "monotonic_ns": lambda: time.monotonic_ns() / 1e9,
    "perf_counter": lambda: time.perf_counter(),
    "perf_counter_ns": lambda: time.perf_counter_ns() / 1e9,
    "process_time": lambda: time.process_time(),
    "a bound name": lambda: bound_clock(),
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "clock_gettime_ns": lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC) / 1e9,
    "localtime": lambda: time.mktime(time.localtime()),
    "gmtime": lambda: time.mktime(time.gmtime()),
    "ctime": lambda: time.mktime(time.strptime(time.ctime())),
    "asctime": lambda: time.mktime(time.strptime(time.asctime())),
    "strftime": lambda: time.mktime(time.strptime(time.strftime("%Y-%m-%d %H:%M:%S"), "%Y-%m-%d %H:%M:%S")),
    "now": lambda: datetime.datetime.now().timestamp(),
    "now of a bound class": lambda: bound_class.now(datetime.UTC).timestamp(),
    "today": lambda: datetime.datetime.today().timestamp(),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_an_hour_of_sleep_is_an_hour_on_each_clock(name: str) -> None:
    with Simulation(0):
        before = CLOCKS[name]()
        time.sleep(HOUR)
        assert CLOCKS[name]() - before == pytest.approx(HOUR, abs=1e-3)


@pytest.mark.filterwarnings("ignore:.*utcnow:DeprecationWarning")
def test_a_run_begins_at_the_same_moment() -> None:
    with Simulation(0):
        now = datetime.datetime.now(datetime.UTC)
        assert now.isoformat(timespec="seconds") == "2026-01-01T00:00:00+00:00"
        assert datetime.datetime.utcnow().date() == datetime.date(2026, 1, 1)
        assert isinstance(now, bound_class)
        time.sleep(48 * HOUR)
        assert datetime.date.today() in {datetime.date(2026, 1, 2), datetime.date(2026, 1, 3)}  # by the time zone


def test_a_subclass_of_datetime_gets_its_own_class() -> None:
    class Moment(datetime.datetime):
        pass

    with Simulation(0):
        assert type(Moment.now()) is Moment


def test_readings_grow() -> None:
    with Simulation(0):
        readings = [time.perf_counter() for _ in range(100)]
    assert readings == sorted(set(readings)) and readings[-1] - readings[0] < 1e-6


def test_readings_grow_even_where_the_time_advances_by_less_than_they_took() -> None:
    with Simulation(0) as world:
        many = [time.monotonic() for _ in range(500)]
        world.clock.now += 1e-7
        assert many[-1] < time.monotonic() < time.monotonic()
        world.clock.now += 1
        assert time.monotonic() > world.clock.now > many[-1]


def test_timeouts_and_schedules_end_in_order() -> None:
    ended: list[tuple[str, float]] = []
    with Simulation(0):
        began = time.monotonic()

        def note(name: str) -> None:
            ended.append((name, round(time.monotonic() - began, 3)))

        plan = sched.scheduler()
        plan.enter(20, 1, note, ("scheduled",))
        plan.run()
        threading.Condition().__enter__()
        assert not threading.Lock().acquire(blocking=False) or True
        threading.Event().wait(5)
        note("waited")
    assert ended == [("scheduled", 20.0), ("waited", 25.0)]


def test_other_os_threads_read_the_real_clock() -> None:
    seen: list[Any] = []
    with Simulation(0, allow=["threads"]):
        thread = originals.Thread(target=lambda: seen.append(time.time()))
        thread.start()
        thread.join()
        assert abs(seen[0] - time.time()) > HOUR


def test_a_virtual_clock_in_a_simulation_is_that_of_the_simulation_from_0_on() -> None:
    with Simulation(1):
        time.sleep(5)
        with virtual_clock() as clock:
            began = time.monotonic()
            time.sleep(1)
            assert clock() == clock.now == 1
            clock.now += 2
            assert clock() == 3 and round(time.monotonic() - began, 3) == 3
