"""Statistics of schedulers: counters that the kernel keeps anyway, and the run-queue delay, which is sampled.

The run-queue delay is the time from a wake to the run. ``sample`` puts a ``DelayProbe`` into the run queue, where it
stands in line as a woken NORMAL dhaga does, and its delay goes into a histogram. The watchdog samples at each of its
looks, from its own OS thread; without a watchdog there are no samples, and ``delays`` is empty. Counters are plain
reads from another thread, without a lock: they may be a few events late.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from .._kernel import accelerator, originals
from .._kernel.accelerator import FrameChunks
from .._kernel.scheduler import HubCall, Scheduler, schedulers

BOUNDS = tuple(1e-6 * 4**power for power in range(13))
"""Bounds of the histograms in seconds, 1 µs to 17 s, each four times the one before; one more bin is beyond the last.
"""


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """The figures of one scheduler since it began."""

    name: str
    seconds: float  # since it began
    live: int  # dhagas
    parked: int
    runnable: int  # in the run queues
    switches: int
    laps: int
    events: int  # of file descriptors
    timers: int  # armed
    timers_fired: int
    busy: float  # share of the time in which dhagas, or callbacks they woke, ran
    delays: tuple[int, ...]  # run-queue delays, sampled while a watchdog looks: counts by BOUNDS, the last beyond them
    delay_seconds: float  # their sum


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of all schedulers of this process, by name. ``bounds``: of the histograms, in seconds."""

    pid: int
    schedulers: tuple[SchedulerStats, ...]
    bounds: tuple[float, ...] = BOUNDS
    accelerator: str = ""  # what runs: "compiled (…)", or "pure Python (why)"
    frame_chunks: FrameChunks | None = None  # None where they are not kept


def stats() -> Stats:
    """Return the figures of every scheduler. Parks: never. From: any thread."""
    ordered = sorted(schedulers, key=lambda each: each.name)
    return Stats(
        os.getpid(),
        tuple(map(stats_of, ordered)),
        accelerator=accelerator.describe(),
        frame_chunks=accelerator.frame_chunks(),
    )


def stats_of(scheduler: Scheduler) -> SchedulerStats:
    """Return the figures of one scheduler."""
    seconds = scheduler._clock() - scheduler._started_at
    dhagas = list(scheduler._live)
    delays = histograms.get(scheduler)
    return SchedulerStats(
        name=scheduler.name,
        seconds=seconds,
        live=len(dhagas),
        parked=sum(bool(dhaga._parked) for dhaga in dhagas),
        runnable=scheduler._runnable(),
        switches=scheduler._switches(),
        laps=scheduler._laps,
        events=scheduler._poller.events,
        timers=len(scheduler._timers),
        timers_fired=scheduler._timers.fired,
        busy=min(1.0, scheduler._busy_seconds / seconds) if seconds > 0 else 0.0,
        delays=() if delays is None else tuple(delays.counts),
        delay_seconds=0.0 if delays is None else delays.total,
    )


# ---- run-queue delays


class DelayHistogram:
    """A histogram of run-queue delays, in seconds."""

    __slots__ = ("counts", "probe", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0
        self.probe: DelayProbe | None = None  # the one in the run queue

    def __repr__(self) -> str:
        return f"<DelayHistogram {sum(self.counts)}, median up to {self.quantile(0.5):g} s>"

    def add(self, seconds: float) -> None:
        """Count one delay."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def quantile(self, share: float) -> float:
        """Return the lowest bound that this share of the delays stays within; inf beyond the last, 0 without delays."""
        wanted = share * sum(self.counts)
        for bound, counted in zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True):
            if counted >= wanted and counted:
                return float(bound)
        return 0.0


class DelayProbe(HubCall):
    """An entry of the run queue that adds its own delay to the histogram when it is run."""

    __slots__ = ("queued", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.queued = originals.monotonic()

    def make_call(self) -> None:
        delays = histograms.get(self.scheduler)
        if delays is not None and delays.probe is self:
            delays.probe = None
            delays.add(originals.monotonic() - self.queued)


histograms: dict[Scheduler, DelayHistogram] = {}
"""The delays seen so far; the watchdog removes the schedulers that have ended."""


def sample(scheduler: Scheduler) -> None:
    """Put a probe into the run queue of a scheduler that is awake; in a sleeping one nothing is delayed.

    From: another thread. One probe at a time: behind a dhaga that blocks more would pile up, and measure the same.
    """
    if not scheduler._thread_ident or scheduler._asleep:
        return
    delays = histograms.setdefault(scheduler, DelayHistogram())
    if delays.probe is None:
        delays.probe = DelayProbe(scheduler)
        scheduler._run_queue.append(delays.probe)
        if scheduler._asleep:  # since just now, and it looked at its run queue before that
            scheduler._wake_loop()
