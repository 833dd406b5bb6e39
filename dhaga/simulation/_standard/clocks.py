"""The clocks of ``time`` and ``datetime``, which show the time of the simulation.

The methods of ``datetime`` and ``date`` are replaced in the classes, because modules have imported these classes.
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
"""The seconds that a reading of a clock takes. So no duration by ``time.monotonic`` is 0: programs may divide by
durations.

Two readings of ``time.time`` can be equal, because floats of this size are 0.24 µs apart.
"""

READINGS_BEFORE_STEP = 1000
"""If a program reads the clock this number of times while the time stands still, each further reading adds ``STEP``
seconds: the program probably polls for a later time.
"""

STEP = 0.001

CLOCKS = ("monotonic", "perf_counter", "time", "process_time", "thread_time")


class SimulatedClock(VirtualClock):
    """The clock of a simulation. Each reading by the program is a little later than the reading before."""

    def __init__(self) -> None:
        self.now = START
        self.readings = 0
        self.read_at = START
        self.last_reading = START
        # Returns the seconds by which the wall clock of the caller's host is ahead.
        self.ahead: Callable[[], float] = lambda: 0.0

    def read(self) -> float:
        """Return the time for a reading by the program."""
        if self.now != self.read_at:
            self.read_at, self.readings = self.now, 0
        self.readings += 1
        if self.readings > READINGS_BEFORE_STEP:
            self.now += STEP
            self.read_at = self.now
        # If the time has advanced by less than the readings took, the previous reading was later than the time.
        self.last_reading = max(self.now + self.readings * READING, self.last_reading + READING)
        return self.last_reading


standard = {name: getattr(time, name) for name in dir(time) if callable(getattr(time, name))}
"""The standard functions of ``time``, by name."""


def simulated_now() -> float | None:
    """Return the time of the caller's simulation; None outside the simulation's OS thread."""
    simulation = here()
    return None if simulation is None else simulation.clock.read()


def seconds_clock(name: str, read: Callable[[], float | None]) -> tuple[Callable[[], float], Callable[[], int]]:
    """Return two functions that replace a clock of ``time``: one returns seconds, the other nanoseconds."""
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
    """Return the wall-clock time of the caller's host; None outside a simulation."""
    simulation = here()
    if simulation is None:
        return None
    return simulation.clock.read() + WALL_START + simulation.clock.ahead()


def broken_down(name: str) -> Callable[..., Any]:
    """Return a replacement of ``time.localtime`` or a similar function. Its default argument is the simulated time."""
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
"""The replaced functions of ``time``."""


# ---- datetime


def now(kind: Any, tz: Any = None) -> Any:
    """Return the simulated time. Source: ``datetime.datetime.now``."""
    moment = wall_now()
    return kind.fromtimestamp(standard["time"]() if moment is None else moment, tz)


def utcnow(kind: Any) -> Any:
    """Return the simulated time in UTC. Source: ``datetime.datetime.utcnow``."""
    return now(kind, datetime.UTC).replace(tzinfo=None)


def today(kind: Any) -> Any:
    """Return the simulated date. Source: ``datetime.date.today``."""
    moment = wall_now()
    return kind.fromtimestamp(standard["time"]() if moment is None else moment)


DATETIME: list[tuple[type, str, Callable[..., Any]]] = [
    (datetime.datetime, "now", now),
    (datetime.datetime, "utcnow", utcnow),
    (datetime.date, "today", today),
]

STANDARD_DATETIME = [vars(kind)[name] for kind, name, _ in DATETIME]


def set_datetime(simulated: bool) -> None:
    """Set the simulated methods in ``datetime`` and ``date``, or restore the standard methods."""
    for (kind, name, method), real in zip(DATETIME, STANDARD_DATETIME, strict=True):
        # vars() of a C class is a read-only view. So the dict behind it is changed, and the class's cache is cleared.
        gc.get_referents(vars(kind))[0][name] = classmethod(method) if simulated else real
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
