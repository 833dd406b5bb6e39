"""Stalls: an OS thread that waits in C while dhagas are runnable there, as behind a lock that none of them can release.

The preemption watcher sees them on its way: a turn that lasts and computes nothing cannot be ended. A line in the log
names the place, once. The watchdog (``debug/_watchdog.py``) reports sooner, with advice, where a program runs it.
"""

from __future__ import annotations

import logging

from .. import originals
from ..helper_threads import HelperThread
from ..run.scheduler import Scheduler
from ..stacks import Stack, stacks_of_threads
from ..wait import deadlock

logger = logging.getLogger("dhaga")

SECONDS = 5.0
"""After this time a wait in C is reported. Calls that block for less are common: a name look-up, a slow disk."""

STILL_SHARE = 0.02
"""An OS thread that computes for a smaller share of the time counts as waiting."""

LEAST_LOOKS = 20
"""Looks of the watcher at a stall, before it is reported: a process that was stopped for a minute has no stall."""

PLACES_KEPT = 1000

reported: set[str] = set()
"""The places of the reported stalls, each as file, line and function."""


def report(scheduler: Scheduler, heartbeat: object, seconds: float) -> None:
    """Log where a scheduler's OS thread waits in C, once for each place. From: another thread."""
    runnable = scheduler.count_runnable()
    if not runnable:
        return
    stack = stacks_of_threads().get(scheduler.thread_ident, ())
    place = str(stack[-1]) if stack else "an unknown place"
    # It may have gone on meanwhile.
    if scheduler.heartbeat() != heartbeat or place in reported or len(reported) >= PLACES_KEPT:
        return
    reported.add(place)
    # In a thread of its own: the OS thread that waits may hold the lock of a handler, and the watcher must go on.
    HelperThread("dhaga-stall", log, (scheduler.name, seconds, runnable, stack)).start()


def log(name: str, seconds: float, runnable: int, stack: Stack) -> None:
    """Write the line. It wakes no dhaga, so the deadlock detector ignores its thread."""
    ident = originals.get_ident()
    deadlock.mark_idle(ident)
    lines = "".join(f"\n    {frame}\n      {frame.source}" for frame in stack)
    try:
        logger.warning(
            "%s has waited in C for %.1f s (runnable dhagas: %d): if it waits for a lock that one of them holds, it "
            "waits for ever%s",
            name, seconds, runnable, lines,
        )  # fmt: skip
    finally:
        deadlock.idle.discard(ident)
