"""The limit of real time of a run. At the limit the run reports the stack of each thread, and its process ends.

``max_events`` and ``max_seconds`` end a run that loops in virtual time. The limit of real time ends a run that is stuck
in a blocking call of C or in a long computation.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from ... import monkey
from ..._kernel.context_manager import contextmanager
from ...debug import dump

GRACE = 2.0
"""Seconds that a run has for its report after the limit. C code that blocks signal handlers prevents the report."""


def late_text(seed: int, seconds: float) -> str:
    """Return the message of a run that has taken too long."""
    return f"the run of seed {seed} took longer than {seconds:g} s of real time"


@contextmanager
def limited(seed: int, seconds: float | None, tell: Callable[[str], object]) -> Iterator[None]:
    """End the process with status 1 if the block takes longer than ``seconds``. None: no limit.

    Before the end, ``tell`` is called with the reason. From: the main thread; in other threads there is no limit.
    """
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return
    set_timer, set_handler = monkey.original("signal", "setitimer"), monkey.original("signal", "signal")

    def end(number: int, frame: FrameType | None) -> None:
        try:
            tell(f"{late_text(seed, seconds)}\n{dump()}")
        finally:
            sys.stdout.flush()
            os._exit(1)

    try:
        former = set_handler(signal.SIGALRM, end)
    except ValueError:  # raised outside the main thread
        yield
        return
    try:
        set_timer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        set_timer(signal.ITIMER_REAL, 0)
        set_handler(signal.SIGALRM, former)
