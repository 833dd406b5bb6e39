"""Functions of the standard library that signatures and classes hold: they show the virtual time, too."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dhaga.simulation import Simulation

HOUR = 3600.0


class Cache:
    """A class of a package that was imported before the simulation."""

    clock = time.monotonic
    wall = staticmethod(time.time)

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self.timer = timer


def by_keyword(*, timer: Callable[[], float] = time.perf_counter) -> float:
    return timer()


HELD: dict[str, Callable[[], float]] = {
    "a default": lambda: Cache().timer(),
    "an attribute of a class": lambda: Cache().clock(),
    "a static method": lambda: Cache.wall(),
    "a keyword's default": lambda: by_keyword(),
}


def test_an_hour_of_sleep_is_an_hour_on_each_held_clock() -> None:
    with Simulation(0):
        before = {name: read() for name, read in HELD.items()}
        time.sleep(HOUR)
        passed = {name: read() - before[name] for name, read in HELD.items()}
    assert passed == {name: pytest.approx(HOUR, abs=1) for name in HELD}


def test_held_functions_are_as_before_after_the_block() -> None:
    before = [vars(Cache)["clock"], vars(Cache)["wall"], Cache.__init__.__defaults__, by_keyword.__kwdefaults__]
    with Simulation(0):
        assert vars(Cache)["clock"] is not before[0]
    now = [vars(Cache)["clock"], vars(Cache)["wall"], Cache.__init__.__defaults__, by_keyword.__kwdefaults__]
    assert now == before and now[0] is time.monotonic
