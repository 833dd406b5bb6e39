"""The watchdog: an OS thread that reports dhagas that block their scheduler's thread, with the blocking line of code.

The watchdog compares heartbeats. A scheduler's heartbeat changes with each switch, and is None while the scheduler runs
neither dhagas nor main code. The kernel counts laps and switches anyway, so a heartbeat costs dhagas nothing. A
``Hold`` is a heartbeat with the time at which the watchdog first saw the heartbeat. After ``threshold`` seconds, a hold
is reported once, with the stack of the thread, and then only timed. Heartbeats and stacks are read without a lock;
therefore the heartbeat is compared again after the stack is read.

The watchdog's thread acquires the interpreter lock for two checks per threshold. A threshold below ``PLAIN_THRESHOLD``
also shortens Python's switch interval. A C call that keeps the interpreter lock is noticed only after the call ends, or
not at all. A process has at most one watchdog, in the variable ``watchdog``; a forked child starts a thread for its
copy of the watchdog.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from .._kernel import hooks, originals
from .._kernel.run.attachment import schedulers
from .._kernel.run.main_code import Main
from .._kernel.run.microthread import Dhaga
from .._kernel.run.scheduler import Scheduler
from .._kernel.stacks import Stack, stacks_of_threads
from .._workers.switch_interval import switch_interval
from . import _stats
from ._block_cause import ThreadUse, advice_for, waits_for_futex
from ._helper_thread import HelperThread, idle
from ._instrumentation import StopHandle

logger = logging.getLogger("dhaga")

LOOKS_PER_THRESHOLD = 2
"""Number of checks per threshold. A hold is found when it has lasted 1 to 1.5 thresholds. A check takes about 0.1 ms of
CPU time, nearly all of which is spent on waking the thread and on passing the interpreter lock.
"""

PLAIN_THRESHOLD = 1.0
"""If the threshold is at least this number of seconds, the watchdog does not change Python's switch interval.

With a shorter threshold, the switch interval is at most 0.1 ms while the watchdog runs (``switch_interval.py``). With
an interval of 5 ms, a watchdog with a threshold of 0.1 s made only one in nine of its due checks while dhagas yielded,
and slowed these dhagas by 7 to 12 %. But a short interval slows OS threads that compute concurrently: Celery's consumer
and tasks took one eighth more CPU time.
"""


@dataclass
class Blocked:
    """A function that has blocked a thread for longer than the threshold, and the number and duration of the blocks."""

    place: str  # file, line and function of the first block
    count: int = 0
    seconds: float = 0.0  # total duration, as measured by the checks
    longest: float = 0.0
    last: str = ""  # name of the last dhaga that blocked in the function


class Hold:
    """A scheduler whose heartbeat has not changed since a check."""

    def __init__(self, scheduler: Scheduler, heartbeat: object, now: float) -> None:
        self.scheduler = scheduler
        self.heartbeat = heartbeat
        self.since = now
        self.place: Blocked | None = None  # set when the hold is reported
        self.counted = 0.0  # seconds of this hold that ``place.seconds`` already includes
        self.use = ThreadUse(scheduler)


class Watchdog(StopHandle):
    """Reports dhagas that hold their thread for longer than ``threshold`` seconds. ``watch()`` creates a watchdog.

    ``blocked`` contains the reports by file and function, also after ``stop()``.
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.blocked: dict[str, Blocked] = {}  # by file and function
        self._holds: dict[Scheduler, Hold] = {}
        self._looks = 0
        self._stop_requested = originals.allocate_lock()
        self._stop_requested.acquire()
        self._start()

    def __repr__(self) -> str:
        return f"<Watchdog of {self.threshold:g} s, {len(self.blocked)} places seen>"

    def _start(self) -> None:
        """Start the thread. A forked child calls this method again, because threads are not inherited."""
        self._switch_intervals = [switch_interval.begin(None)] if self.threshold < PLAIN_THRESHOLD else []
        self._thread = HelperThread("watchdog", self._run)

    def stop(self) -> None:
        """Stop checking, and join the thread; ``blocked`` is kept. From: any thread."""
        global watchdog
        if watchdog is self:
            watchdog = None
        if self._stop_requested.locked():
            self._stop_requested.release()
            self._thread.join()
            switch_interval.end(self._switch_intervals)

    def _run(self) -> None:
        while not self._rest():
            self._look(originals.monotonic())

    def _rest(self) -> bool:
        """Wait until the next check. Returns: True after ``stop``."""
        with idle():
            return self._stop_requested.acquire(timeout=self.threshold / LOOKS_PER_THRESHOLD)

    def _look(self, now: float) -> None:
        """Check the heartbeats of all schedulers."""
        self._looks += 1
        for scheduler in list(schedulers):
            _stats.sample(scheduler)
            hold = self._holds.get(scheduler)
            heartbeat = scheduler.heartbeat()
            if hold is None or hold.heartbeat != heartbeat:
                self._holds[scheduler] = Hold(scheduler, heartbeat, now)
            elif heartbeat is not None:
                hold.use.begin_delay()
                if now - hold.since >= self.threshold:
                    self._note(hold, now - hold.since)
        for scheduler in self._holds.keys() - schedulers:
            del self._holds[scheduler]
            _stats.histograms.pop(scheduler, None)

    def _note(self, hold: Hold, seconds: float) -> None:
        """Report a hold that has exceeded the threshold, once, and add its time to the total of its place."""
        if hold.place is None:
            blocker, stack = running_on(hold.scheduler), stacks_of_threads().get(hold.scheduler.thread_ident, ())
            if hold.scheduler.heartbeat() != hold.heartbeat or blocker is None:  # the scheduler has switched meanwhile
                return
            advice = advice_for(stack, hold.use.share(seconds), waits_for_futex(hold.use.native_id))
            hold.place = self._report(hold.scheduler, blocker, stack, seconds, advice)
        hold.place.seconds += seconds - hold.counted
        hold.counted = seconds
        hold.place.longest = max(hold.place.longest, seconds)

    def _report(self, scheduler: Scheduler, blocker: Any, stack: Stack, seconds: float, advice: str) -> Blocked:
        """Log a hold, and count it for the function that holds the thread."""
        where = str(stack[-1]) if stack else "an unknown place"
        function = f"{stack[-1].file} in {stack[-1].function}" if stack else where  # in a loop, the line varies
        seen = self.blocked.setdefault(function, Blocked(where))
        seen.count += 1
        seen.last = blocker.name
        lines = "".join(f"\n    {frame}\n      {frame.source}" for frame in stack)
        logger.warning(
            "%s has held %s for %.3f s: no other dhaga has run there meanwhile; %s (place seen %d times)%s",
            blocker.name, scheduler.name, seconds, advice, seen.count, lines,
        )  # fmt: skip
        return seen


def running_on(scheduler: Scheduler) -> Dhaga | Main | None:
    """Return the dhaga or main code that blocks a scheduler. From: another thread, while the scheduler is blocked."""
    for dhaga in list(scheduler.live):
        if not dhaga.parked and dhaga and dhaga.gr_frame is None:
            return dhaga
    main = scheduler.main_waiter
    return main if isinstance(main, Main) and not main.parked and scheduler.live else None


watchdog: Watchdog | None = None
"""The watchdog of this process, if any."""


def watch(threshold: float = 0.1) -> Watchdog:
    """Report each dhaga that holds its OS thread for longer than ``threshold`` seconds.

    The logger ``dhaga`` logs a warning with the dhaga, the place and the stack; ``blocked`` counts the reports of each
    function. Main code is also reported while dhagas are alive. ``stop()`` or the end of a ``with`` block stops the
    watchdog. Another call replaces the running watchdog. Parks: never. From: any thread. Raises: ValueError.
    """
    global watchdog
    if not 0 < threshold < originals.TIMEOUT_MAX:
        raise ValueError(f"a threshold is a number of seconds above 0, not {threshold!r}")
    if watchdog is not None:
        watchdog.stop()
    watchdog = Watchdog(threshold)
    return watchdog


def after_fork_in_child() -> None:
    """Start the thread of the child's copy of the watchdog."""
    if watchdog is not None:
        watchdog._holds.clear()
        watchdog._start()


hooks.in_forked_child.append(after_fork_in_child)
