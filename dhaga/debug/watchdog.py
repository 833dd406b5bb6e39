"""The watchdog: an OS thread that looks whether somebody holds a scheduler's thread for too long, and where.

It costs what its thread takes of the interpreter lock, two looks a threshold; the dhagas do nothing for it. What holds
the interpreter lock as well, a C call that never lets go of it, is seen only when it is over, or not at all.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Any

from dhaga.haste import haste
from dhaga.kernel import originals
from dhaga.kernel.microthread import Dhaga, Main
from dhaga.kernel.scheduler import Scheduler, schedulers

from . import delays
from .activities import Activity
from .helpers import Helper, resting
from .stacks import Stack, stacks_of_threads

logger = logging.getLogger("dhaga")

LOOKS = 2
"""In the time of the threshold; so a hold is found once it has lasted one to one and a half of it. A look takes some
0.1 ms of CPU time, nearly all of it for waking the thread and for handing over the interpreter lock.
"""

UNHURRIED = 1.0
"""Seconds of a threshold from which on a watchdog waits for the interpreter lock like anybody.

Below it Python's switch interval is at most 0.1 ms meanwhile (``dhaga/haste.py``): with 5 ms one of 0.1 s came to one
look in nine beside dhagas that yield, and its waiting cost them 7 to 12 %. But OS threads that compute side by side pay
for such haste: Celery's consumer and its tasks took an eighth more CPU time.
"""


@dataclass
class Blocked:
    """One function that has held a thread for longer than the threshold: how often, how long."""

    place: str  # file:line in function, where it was seen first
    count: int = 0
    seconds: float = 0.0  # all together, as seen by the looks
    longest: float = 0.0
    last: str = ""  # name of the dhaga that did so last


class Hold:
    """One scheduler, as far as somebody has held its thread since the last look."""

    def __init__(self, scheduler: Scheduler, pulse: object, now: float) -> None:
        self.scheduler = scheduler
        self.pulse = pulse
        self.since = now
        self.seen: Blocked | None = None  # once reported
        self.counted = 0.0


class Watchdog(Activity):
    """Report whoever holds the thread of a scheduler for longer than ``threshold`` seconds; from ``watch()``."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.blocked: dict[str, Blocked] = {}  # by file and function
        self.holds: dict[Scheduler, Hold] = {}
        self.looks = 0  # so far
        self.ended = originals.allocate_lock()
        self.ended.acquire()
        self.start()

    def __repr__(self) -> str:
        return f"<Watchdog of {self.threshold:g} s, {len(self.blocked)} places seen>"

    def start(self) -> None:
        """Begin to look; again in a forked child, which has no such thread."""
        self.hurry = haste.begin(None) if self.threshold < UNHURRIED else None
        self.thread = Helper("watchdog", self.run)

    def stop(self) -> None:
        """Look no more; what was seen is kept."""
        global watchdog
        if watchdog is self:
            watchdog = None
        if self.ended.locked():
            self.ended.release()
            self.thread.join()
            if self.hurry is not None:
                haste.end(self.hurry)

    def run(self) -> None:
        while not self.rest():
            self.look(originals.monotonic())

    def rest(self) -> bool:
        with resting():
            return self.ended.acquire(timeout=self.threshold / LOOKS)

    def look(self, now: float) -> None:
        """Look at all schedulers."""
        self.looks += 1
        for scheduler in list(schedulers):
            delays.sample(scheduler)
            hold = self.holds.get(scheduler)
            pulse = pulse_of(scheduler)
            if hold is None or hold.pulse != pulse:
                self.holds[scheduler] = Hold(scheduler, pulse, now)
            elif pulse is not None and now - hold.since >= self.threshold:
                self.note(hold, now - hold.since)
        for scheduler in self.holds.keys() - schedulers:
            del self.holds[scheduler]
            delays.sampled.pop(scheduler, None)

    def note(self, hold: Hold, seconds: float) -> None:
        """Count a hold that lasts; report it when it is seen first."""
        if hold.seen is None:
            culprit, stack = who_runs(hold.scheduler), stacks_of_threads().get(hold.scheduler.ident, ())
            if pulse_of(hold.scheduler) != hold.pulse or culprit is None:  # it has gone on meanwhile
                return
            hold.seen = self.report(hold.scheduler, culprit, stack, seconds)
        hold.seen.seconds += seconds - hold.counted
        hold.counted = seconds
        hold.seen.longest = max(hold.seen.longest, seconds)

    def report(self, scheduler: Scheduler, culprit: Any, stack: Stack, seconds: float) -> Blocked:
        place = str(stack[-1]) if stack else "an unknown place"
        function = f"{stack[-1].file} in {stack[-1].function}" if stack else place  # its lines take turns in a loop
        seen = self.blocked.setdefault(function, Blocked(place))
        seen.count += 1
        seen.last = culprit.name
        lines = "".join(f"\n    {frame}\n      {frame.source}" for frame in stack)
        logger.warning(
            "%s has held %s for %.3f s: nobody else has run there meanwhile; hand what blocks to dhaga.offload(), or "
            "call dhaga.sleep(0) now and then (place seen %d times)%s",
            culprit.name, scheduler.name, seconds, seen.count, lines,
        )  # fmt: skip
        return seen


def pulse_of(scheduler: Scheduler) -> object:
    """Return what changes with each switch of a scheduler; None while nobody runs there."""
    if scheduler.asleep or not scheduler.ident:
        return None
    return scheduler.laps, scheduler.switched, scheduler.left


def who_runs(scheduler: Scheduler) -> Dhaga | Main | None:
    """Return who runs on a scheduler now; from another thread, while it holds that."""
    for dhaga in list(scheduler.live):
        if not dhaga.parked and dhaga and dhaga.gr_frame is None:
            return dhaga
    main = scheduler.main
    return main if isinstance(main, Main) and not main.parked and scheduler.live else None


watchdog: Watchdog | None = None
"""The one that looks now."""


def watch(threshold: float = 0.1) -> Watchdog:
    """Report, from now on, each dhaga that holds its OS thread for longer than ``threshold`` seconds.

    A line of the logger ``dhaga`` says who and where, with the stack at that moment; ``blocked`` counts by function.
    Main code counts where dhagas wait for it. ``stop()``, or the end of a ``with`` block, ends it, and so does another
    call, which takes its place.
    Parks: never. From: any thread. Raises: ValueError.
    """
    global watchdog
    if not threshold > 0:
        raise ValueError(f"a threshold is seconds above 0, not {threshold!r}")
    if watchdog is not None:
        watchdog.stop()
    watchdog = Watchdog(threshold)
    return watchdog


def after_fork_in_child() -> None:
    """Have the child's copy of the watchdog look, too."""
    if watchdog is not None:
        watchdog.holds.clear()
        watchdog.start()


os.register_at_fork(after_in_child=after_fork_in_child)
