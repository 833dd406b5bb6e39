"""Reports of stalls. In a stall an OS thread waits in C, for example for a lock, while its scheduler has runnable
dhagas.

The preemption watcher detects stalls. It cannot end a turn that waits in C, so it only reports the turn. Each place is
logged once. If a program uses the watchdog (``debug/_watchdog.py``), the watchdog reports a stall earlier than the
watcher does, and adds advice.
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
"""The time after which a wait in C is reported. Shorter blocking calls are common: a name lookup, a slow disk."""

STILL_SHARE = 0.02
"""The lowest CPU time, as a share of a turn's time, at which the OS thread counts as computing, and not as waiting."""

LEAST_LOOKS = 20
"""The minimum number of checks before a stall is reported. A stopped process makes no checks, so its stop is not
reported.
"""

PLACES_KEPT = 1000

reported: set[str] = set()
"""The places of the reported stalls, each as text: file, line and function."""


def report(scheduler: Scheduler, heartbeat: object, seconds: float) -> None:
    """Log the place where a scheduler's OS thread waits in C, once for each place. From: another thread."""
    runnable = scheduler.count_runnable()
    if not runnable:
        return
    stack = stacks_of_threads().get(scheduler.thread_ident, ())
    place = str(stack[-1]) if stack else "an unknown place"
    # The OS thread may have left the wait meanwhile.
    if scheduler.heartbeat() != heartbeat or place in reported or len(reported) >= PLACES_KEPT:
        return
    reported.add(place)
    # A new thread writes the log line, because the waiting OS thread may hold a log handler's lock, and the watcher
    # must not block.
    HelperThread("dhaga-stall", log, (scheduler.name, seconds, runnable, stack)).start()


def log(name: str, seconds: float, runnable: int, stack: Stack) -> None:
    """Write the log line. The deadlock detector ignores the calling thread, which does not wake dhagas."""
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
