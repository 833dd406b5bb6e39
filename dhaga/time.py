"""The standard ``time`` with a ``sleep`` that parks; a dhaga has its OS thread's CPU clock.

All other names are the standard module's own.
"""

from __future__ import annotations

import operator
import sys
import time as standard
from collections.abc import Callable
from typing import Any

from ._kernel.idents import os_thread_of
from ._kernel.scheduler import sleep as kernel_sleep
from ._kernel.stdlib_face import fall_back_to

__all__ = ["pthread_getcpuclockid", "sleep"]

MAX_SECONDS = 2.0**63 / 1e9
"""Longest sleep that the standard module accepts, 292 years."""

standard_getcpuclockid: Any = getattr(standard, "pthread_getcpuclockid", None)

__getattr__: Callable[[str], Any]
__dir__: Callable[[], list[str]]
__getattr__, __dir__ = fall_back_to(standard, globals())


def sleep(seconds: float, /) -> None:
    """Let other dhagas run for at least ``seconds``; 0: once around the run queue.

    Parks: ``sleep``; a plain OS thread sleeps for real. Raises: TypeError, ValueError (below 0, NaN), OverflowError.
    Source: ``time.sleep``.
    """
    if not isinstance(seconds, float):
        seconds = whole_seconds(seconds)
    if not 0 <= seconds < MAX_SECONDS:
        raise_invalid(seconds)
    kernel_sleep(seconds)


def whole_seconds(seconds: Any) -> float:
    """Return a number that is no float as one or as an int. Raises: TypeError, as the standard's from 3.14 on."""
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
    """Raise the standard error for a length of sleep that is out of range."""
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    raise OverflowError("timestamp out of range for platform time_t")


def pthread_getcpuclockid(thread_id: int, /) -> int:
    """Return the CPU clock of the OS thread that runs a thread; its dhagas share it.

    Raises: ProcessLookupError for a dhaga that has ended. Source: ``time.pthread_getcpuclockid``.
    """
    return standard_getcpuclockid(os_thread_of(operator.index(thread_id)))  # type: ignore[no-any-return]
