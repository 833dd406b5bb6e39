"""The standard library's clocks, on the clock of the simulation: ``time`` and ``datetime``.

The methods of ``datetime`` are changed in the class itself, because modules have imported that class.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import time
from collections.abc import Callable
from typing import Any

from ..._kernel.process.virtual_clock import VirtualClock
from ...monkey._rebind import Replacement
from .._base.here import here
from .._base.part import START, WALL_START

READING = 1e-9
"""Seconds that a reading of a clock takes: no two readings are equal, and a rate is no division by 0."""

READINGS_BEFORE_STEP = 1000
"""Readings without an event, after which each one moves the clock by ``STEP``: the program polls for a deadline."""

STEP = 0.001

CLOCKS = ("monotonic", "perf_counter", "time", "process_time", "thread_time")


class SimulatedClock(VirtualClock):
    """The clock of a simulation. Readings by the program are a little later each time."""

    def __init__(self) -> None:
        self.now = START
        self.readings = 0
        self.read_at = START
        # Of the calling host's wall clock, in seconds.
        self.ahead: Callable[[], float] = lambda: 0.0

    def read(self) -> float:
        """Return the time for the program."""
        if self.now != self.read_at:
            self.read_at, self.readings = self.now, 0
        self.readings += 1
        if self.readings > READINGS_BEFORE_STEP:
            self.now += STEP
            self.read_at = self.now
        return self.now + self.readings * READING


standard = {name: getattr(time, name) for name in dir(time) if callable(getattr(time, name))}
"""The standard functions of ``time``, by name."""


def simulated_now() -> float | None:
    """Return the time of the simulation, in its OS thread; None elsewhere."""
    simulation = here()
    return None if simulation is None else simulation.clock.read()


def seconds_clock(name: str, read: Callable[[], float | None]) -> tuple[Callable[[], float], Callable[[], int]]:
    """Return the functions for a clock of ``time``: in seconds, and in nanoseconds."""
    real, real_ns = standard[name], standard[f"{name}_ns"]

    def seconds() -> float:
        now = read()
        return real() if now is None else now

    def nanoseconds() -> int:
        now = read()
        return real_ns() if now is None else round(now * 1e9)

    seconds.__name__, nanoseconds.__name__ = name, f"{name}_ns"
    return seconds, nanoseconds


def wall_now() -> float | None:
    """Return what the wall clock of the caller's host shows; None outside a simulation."""
    simulation = here()
    if simulation is None:
        return None
    return simulation.clock.read() + WALL_START + simulation.clock.ahead()


def broken_down(name: str) -> Callable[..., Any]:
    """Return ``time.localtime`` or a function like it, which converts the simulated time without an argument."""
    real = standard[name]

    def convert(seconds: float | None = None, /) -> Any:
        return real(wall_now() if seconds is None else seconds)

    convert.__name__ = name
    return convert


def strftime(format: str, *moment: Any) -> str:
    return standard["strftime"](format, *(moment or (broken_down("localtime")(),)))  # type: ignore[no-any-return]


def asctime(*moment: Any) -> str:
    return standard["asctime"](*(moment or (broken_down("localtime")(),)))  # type: ignore[no-any-return]


def clock_gettime(clock_id: int, /) -> float:
    now = wall_now() if clock_id == time.CLOCK_REALTIME else simulated_now()
    return standard["clock_gettime"](clock_id) if now is None else now


def clock_gettime_ns(clock_id: int, /) -> int:
    now = simulated_now()
    return standard["clock_gettime_ns"](clock_id) if now is None else round(clock_gettime(clock_id) * 1e9)


def replacements() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {"strftime": strftime, "asctime": asctime}
    for name in CLOCKS:
        found[name], found[f"{name}_ns"] = seconds_clock(name, wall_now if name == "time" else simulated_now)
    found |= {name: broken_down(name) for name in ("ctime", "gmtime", "localtime")}
    found |= {"clock_gettime": clock_gettime, "clock_gettime_ns": clock_gettime_ns}
    return {name: ours for name, ours in found.items() if name in standard}


REPLACED = [Replacement(time, name, ours, standard[name]) for name, ours in replacements().items()]
"""The functions of ``time``."""


# ---- datetime


def now(kind: Any, tz: Any = None) -> Any:
    """Return the simulated time. Source: ``datetime.datetime.now``."""
    moment = wall_now()
    return kind.fromtimestamp(standard["time"]() if moment is None else moment, tz)


def utcnow(kind: Any) -> Any:
    """Return the simulated time in UTC. Source: ``datetime.datetime.utcnow``."""
    return now(kind, datetime.UTC).replace(tzinfo=None)


def today(kind: Any) -> Any:
    """Return the simulated day. Source: ``datetime.date.today``."""
    moment = wall_now()
    return kind.fromtimestamp(standard["time"]() if moment is None else moment)


DATETIME: list[tuple[type, str, Callable[..., Any]]] = [
    (datetime.datetime, "now", now),
    (datetime.datetime, "utcnow", utcnow),
    (datetime.date, "today", today),
]

STANDARD_DATETIME = [vars(kind)[name] for kind, name, _ in DATETIME]


def set_datetime(simulated: bool) -> None:
    """Set the simulated methods of ``datetime``, or the standard ones."""
    for (kind, name, method), real in zip(DATETIME, STANDARD_DATETIME, strict=True):
        # The class is in C: its namespace is reached behind the read-only view, and the interpreter drops its cache.
        gc.get_referents(vars(kind))[0][name] = classmethod(method) if simulated else real
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
