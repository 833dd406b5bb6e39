"""The standard ``time`` with a ``sleep`` that parks, and clocks that follow a virtual clock in tests.

In a test on a virtual clock, ``monotonic``, ``perf_counter`` and ``time`` return that clock's time in the dhagas and
the main code of the clock's scheduler. The patch (``dhaga.monkey``) does not replace the standard module's clocks,
because a Python function would triple the cost of each call. All other names are the standard module's own.
"""

from __future__ import annotations

import operator
import sys
import time as standard
from collections.abc import Callable
from typing import Any

from ._kernel import originals
from ._kernel.faces.stdlib_face import builtin_function, fall_back_to
from ._kernel.fast.compiled import compiled
from ._kernel.run.idents import os_thread_of
from ._kernel.run.scheduler import sleep as kernel_sleep
from ._kernel.wait.current import scheduler_of_caller, this_thread

__all__ = [
    "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "pthread_getcpuclockid", "sleep", "time", "time_ns",
]  # fmt: skip

MAX_SECONDS = 2.0**63 / 1e9
"""Longest sleep that the standard module accepts, in seconds (292 years)."""

WALL_START = standard.time()
"""The wall-clock time that ``time`` adds to a virtual clock, which begins at 0."""

standard_getcpuclockid: Any = getattr(standard, "pthread_getcpuclockid", None)

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


@builtin_function
@compiled  # in C only for ints and floats in range
def sleep(seconds: float, /) -> None:
    """Sleep for at least ``seconds`` while other dhagas run; with 0, only yield to other runnable dhagas.

    Parks: ``sleep``; a plain OS thread blocks. Raises: TypeError, ValueError (below 0, NaN), OverflowError.
    Source: ``time.sleep``.
    """
    if not isinstance(seconds, float):
        seconds = whole_seconds(seconds)
    if not 0 <= seconds < MAX_SECONDS:
        raise_invalid(seconds)
    kernel_sleep(seconds)


def virtual_now() -> float | None:
    """Return the time of the caller's scheduler if the scheduler has a virtual clock, else None."""
    main: Any = this_thread.main
    scheduler = scheduler_of_caller() or (main and main.scheduler)
    if scheduler is None or scheduler.clock is originals.monotonic:
        return None
    now: float = scheduler.clock()
    return now


def monotonic() -> float:
    """Return the time in seconds on the clock that ``sleep`` uses. Source: ``time.monotonic``."""
    now = virtual_now()
    return standard.monotonic() if now is None else now


def monotonic_ns() -> int:
    """Return the time of ``monotonic`` in nanoseconds. Source: ``time.monotonic_ns``."""
    now = virtual_now()
    return standard.monotonic_ns() if now is None else round(now * 1e9)


def perf_counter() -> float:
    """Return the time in seconds on the most exact clock, or the virtual clock. Source: ``time.perf_counter``."""
    now = virtual_now()
    return standard.perf_counter() if now is None else now


def perf_counter_ns() -> int:
    """Return the time of ``perf_counter`` in nanoseconds. Source: ``time.perf_counter_ns``."""
    now = virtual_now()
    return standard.perf_counter_ns() if now is None else round(now * 1e9)


def time() -> float:
    """Return the seconds since the epoch; a virtual clock also moves this time. Source: ``time.time``."""
    now = virtual_now()
    return standard.time() if now is None else WALL_START + now


def time_ns() -> int:
    """Return the time of ``time`` in nanoseconds. Source: ``time.time_ns``."""
    now = virtual_now()
    return standard.time_ns() if now is None else round((WALL_START + now) * 1e9)


def whole_seconds(seconds: Any) -> float:
    """Convert an integer of any type to an int. From Python 3.15 on, convert any other number to a float.
    Raises: TypeError, with the text of Python 3.14 or 3.15.
    """
    try:
        return operator.index(seconds)
    except TypeError:
        kind = type(seconds).__name__
        if sys.version_info >= (3, 15):
            if hasattr(type(seconds), "__float__"):  # Decimal and Fraction
                return float(seconds)
            raise TypeError(f"must be real number, not {kind}") from None
        raise TypeError(f"{kind!r} object cannot be interpreted as an integer or float") from None


def raise_invalid(seconds: float) -> None:
    """Raise the standard error for a sleep length that is out of range."""
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    raise OverflowError("timestamp out of range for platform time_t")


@builtin_function
def pthread_getcpuclockid(thread_id: int, /) -> int:
    """Return the id of the CPU clock of an OS thread, or of a dhaga's OS thread. All its dhagas share the clock.

    Raises: ProcessLookupError for a dhaga that has ended. Source: ``time.pthread_getcpuclockid``.
    """
    return standard_getcpuclockid(os_thread_of(operator.index(thread_id)))  # type: ignore[no-any-return]
