"""The limit of real time of a run: at its end the run says where each thread stands, and its process ends.

``max_events`` and ``max_seconds`` end a run that loops in virtual time. This limit ends a run that is
stuck in a blocking call of C, or in the computation of a library.
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
"""Seconds that a run has to tell where it stands. Code in C that handles no signal keeps it from telling."""


def late_text(seed: int, seconds: float) -> str:
    """Return the message of a run that has taken too long."""
    return f"the run of seed {seed} took longer than {seconds:g} s of real time"


@contextmanager
def limited(seed: int, seconds: float | None, tell: Callable[[str], object]) -> Iterator[None]:
    """End the process in which the block takes longer, with status 1, once ``tell`` has had the reason. None: no limit.

    From: the main thread; in others there is no limit.
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
    except ValueError:  # not the main thread
        yield
        return
    try:
        set_timer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        set_timer(signal.ITIMER_REAL, 0)
        set_handler(signal.SIGALRM, former)
