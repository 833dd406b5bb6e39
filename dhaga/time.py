"""The standard ``time`` with a ``sleep`` that parks. Whatever else is asked for is the standard module's own."""

from __future__ import annotations

import operator
import time as standard
from typing import Any

from .kernel.scheduler import sleep as kernel_sleep

__all__ = ["sleep"]

LONGEST = 2.0**63 / 1e9
"""Seconds that the standard can count, 292 years."""


def __getattr__(name: str) -> Any:
    return getattr(standard, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(standard)})


def sleep(seconds: float, /) -> None:
    """Let others run for at least ``seconds``; with 0 once around the run queue.

    Parks: ``sleep``; a plain OS thread sleeps for real. Raises: TypeError, ValueError (below 0, NaN), OverflowError.
    Source: ``time.sleep``.
    """
    if not isinstance(seconds, float):
        seconds = operator.index(seconds)
    if not 0 <= seconds < LONGEST:
        refuse(seconds)
    kernel_sleep(seconds)


def refuse(seconds: float) -> None:
    if seconds != seconds:
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    raise OverflowError("timestamp out of range for platform time_t")
