"""CPU accounting: the share of the time in which each dhaga runs, measured at each switch while it is queried.

Meanwhile a switch costs about 0.6 µs more; otherwise there is no cost. ``RunTimes`` adds up the time between two
switches for the greenlet that ran, in two windows of ``WINDOW`` seconds: the current one and the previous one, so that
a share never covers only a window that has just begun. Its dicts are written in the scheduler's thread and read in the
querying thread, which copies them. A scheduler that a dhaga blocks may not have installed the observer yet: then the
heartbeat, unchanged since the last query, gives that dhaga the whole share.

Rejected: sampling from another thread, a hundred times a second. It costs less and misses too much: such a thread runs
when the interpreter lock is released, hardly ever in the middle of a computation. Of dhagas that compute for 2 ms in
every 5 it saw 3 %.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from .._kernel.run.scheduler import Scheduler, schedulers
from ._instrumentation import observe, unobserve
from ._on_demand import OnDemand
from ._watchdog import running_on

WINDOW = 1.0
"""Seconds of a window; a share covers the last one to two windows."""


class RunTimes:
    """The run time of each greenlet of one scheduler, in the current and in the previous window."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.heartbeat = scheduler.heartbeat()
        self.window_began = self.last_switch = perf_counter()
        self.running: Any = None  # the current greenlet; None until the first switch is seen
        self.seconds: dict[Any, float] = {}
        self.previous: dict[Any, float] = {}
        self.previous_window = 0.0  # its length in seconds
        observe(scheduler, self.on_switch)

    def on_switch(self, event: str, between: tuple[Any, Any]) -> None:
        now = perf_counter()
        origin, self.running = between
        seconds = self.seconds
        seconds[origin] = seconds.get(origin, 0.0) + now - max(self.last_switch, self.window_began)
        self.last_switch = now

    def rotate(self, now: float) -> None:
        """Begin a new window if the current one is long enough."""
        if now - self.window_began >= WINDOW:
            self.previous, self.previous_window = self.seconds, now - self.window_began
            self.seconds = {}
            self.window_began = now

    def shares(self, now: float) -> dict[int, float]:
        """Return the shares of dhagas and main code by ident, without the hub, which also sleeps."""
        window = now - self.window_began + self.previous_window
        if self.running is None:  # no switch yet
            return self.share_of_blocker()
        seconds = dict(self.seconds)
        for each, before in dict(self.previous).items():
            seconds[each] = seconds.get(each, 0.0) + before
        since = max(self.last_switch, self.window_began)
        seconds[self.running] = seconds.get(self.running, 0.0) + max(0.0, now - since)
        main = self.scheduler.main_waiter
        idents = {getattr(main, "own_greenlet", main): getattr(main, "ident", 0)}
        shares = {getattr(each, "ident", idents.get(each)): min(1.0, seconds[each] / window) for each in seconds}
        return {ident: share for ident, share in shares.items() if ident is not None}

    def share_of_blocker(self) -> dict[int, float]:
        """Return a share of 1 for a dhaga that has blocked the scheduler since the last query, if any."""
        before, self.heartbeat = self.heartbeat, self.scheduler.heartbeat()
        blocker = running_on(self.scheduler) if before is not None and self.heartbeat == before else None
        return {} if blocker is None else {blocker.ident: 1.0}


class Shares:
    """The CPU shares of all dhagas, measured while ``now()`` is called every few seconds. From: any OS thread."""

    def __init__(self) -> None:
        self.run_times: dict[Scheduler, RunTimes] = {}
        self.probe = OnDemand("shares", self.stop)

    def now(self) -> dict[int, float]:
        """Return the shares, 0 to 1, of the last one to two windows by ident; empty at the first call.

        A running dhaga holds its OS thread: it computes, or makes a blocking call. Raises: ProbeUnavailable.
        """
        with self.probe:
            self.follow_schedulers()
            now = perf_counter()
            found: dict[int, float] = {}
            for run_times in self.run_times.values():
                found |= run_times.shares(now)
                run_times.rotate(now)
            return found

    def follow_schedulers(self) -> None:
        """Start to measure new schedulers, and discard ended ones."""
        for scheduler in schedulers - self.run_times.keys():
            self.run_times[scheduler] = RunTimes(scheduler)
        for scheduler in self.run_times.keys() - schedulers:
            del self.run_times[scheduler]

    def stop(self) -> None:
        """Stop measuring; the next ``now()`` begins anew."""
        for scheduler, run_times in self.run_times.items():
            unobserve(scheduler, run_times.on_switch)
        self.run_times.clear()
