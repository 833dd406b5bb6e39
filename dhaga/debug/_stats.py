"""Statistics of schedulers: counters that the kernel always keeps, and the run-queue delay, which is sampled.

The run-queue delay is the time from the wake of a dhaga until it runs. ``sample`` puts a ``DelayProbe`` into the run
queue, where the probe waits like a woken NORMAL dhaga. A histogram counts the probes' delays. The watchdog samples at
each of its checks, from its own OS thread; without a watchdog there are no samples, and ``delays`` is empty. Other
threads read the counters without a lock, so the values may be a few events behind.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from .._kernel import originals
from .._kernel.fast import accelerator
from .._kernel.fast.accelerator import FrameChunks
from .._kernel.run import preemption
from .._kernel.run.attachment import schedulers
from .._kernel.run.entries import HubCall
from .._kernel.run.scheduler import Scheduler
from ._snapshot import PLACES_SHOWN

BOUNDS = tuple(1e-6 * 4**power for power in range(13))
"""Upper bounds of the histograms' bins in seconds, from 1 µs to 17 s. Each bound is four times the previous one. Each
histogram has one more bin, beyond the last bound.
"""


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """The statistics of one scheduler since it began."""

    name: str
    seconds: float  # since the scheduler began
    live: int  # number of living dhagas
    parked: int
    runnable: int  # number of entries in the run queues
    switches: int
    preemptions: int  # number of turns ended because they took too long
    laps: int  # number of event loop iterations that ran dhagas
    events: int  # number of events of file descriptors
    timers: int  # number of armed timers
    timers_fired: int
    busy: float  # share of the time in which the scheduler ran entries of its run queues
    delays: tuple[int, ...]  # number of sampled run-queue delays in each bin; empty without a watchdog
    delay_seconds: float  # sum of the delays


@dataclass(frozen=True, slots=True)
class Stats:
    """The statistics of all schedulers of this process, sorted by name. ``bounds``: histogram bounds in seconds."""

    pid: int
    schedulers: tuple[SchedulerStats, ...]
    bounds: tuple[float, ...] = BOUNDS
    accelerator: str = ""  # "compiled (…)", or "pure Python (…)" with the reason
    frame_chunks: FrameChunks | None = None  # None if chunks are not counted
    preempted: tuple[tuple[str, int], ...] = ()  # the lines at which most turns were preempted, each with its count


def stats() -> Stats:
    """Return the statistics of every scheduler. Parks: never. From: any thread."""
    ordered = sorted(schedulers, key=lambda each: each.name)
    return Stats(
        os.getpid(),
        tuple(map(stats_of, ordered)),
        accelerator=accelerator.describe(),
        frame_chunks=accelerator.frame_chunks(),
        preempted=tuple(preemption.places.most_common(PLACES_SHOWN)),
    )


def stats_of(scheduler: Scheduler) -> SchedulerStats:
    """Return the statistics of one scheduler."""
    seconds = scheduler.clock() - scheduler.started_at
    dhagas = list(scheduler.live)
    delays = histograms.get(scheduler)
    return SchedulerStats(
        name=scheduler.name,
        seconds=seconds,
        live=len(dhagas),
        parked=sum(bool(dhaga.parked) for dhaga in dhagas),
        runnable=scheduler.count_runnable(),
        switches=scheduler.count_switches(),
        preemptions=scheduler.preemptions,
        laps=scheduler.laps,
        events=scheduler.poller.events,
        timers=len(scheduler.timers),
        timers_fired=scheduler.timers.fired,
        busy=min(1.0, scheduler.busy_seconds / seconds) if seconds > 0 else 0.0,
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
        self.probe: DelayProbe | None = None  # the probe in the run queue, if any

    def __repr__(self) -> str:
        return f"<DelayHistogram {sum(self.counts)}, median up to {self.quantile(0.5):g} s>"

    def add(self, seconds: float) -> None:
        """Count one delay."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the delays, rounded up to a bound; ``share`` 0.5 means the median. Return 0 for an empty
        histogram, and inf if all bounds are exceeded.
        """
        wanted = share * sum(self.counts)
        for bound, counted in zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True):
            if counted >= wanted and counted:
                return float(bound)
        return 0.0


class DelayProbe(HubCall):
    """A call in the run queue that adds its own delay to the histogram when it runs."""

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
"""The histogram of each scheduler. The watchdog removes ended schedulers."""


def sample(scheduler: Scheduler) -> None:
    """Put a probe into the run queue of a scheduler that is awake; a sleeping scheduler has no delays.

    From: another thread. A run queue has only one probe at a time, because several probes would measure the same delay
    behind a blocking dhaga.
    """
    if not is_awake(scheduler):
        return
    delays = histograms.setdefault(scheduler, DelayHistogram())
    if delays.probe is None:
        delays.probe = DelayProbe(scheduler)  # set before the probe can run
        if not enqueue(delays.probe):
            delays.probe = None


def is_awake(scheduler: Scheduler) -> bool:
    return bool(scheduler.thread_ident) and not scheduler.asleep


def enqueue(probe: HubCall) -> bool:
    """Put a probe into the run queue of the probe's scheduler. Returns: False if the scheduler sleeps or has ended.

    From: another thread.
    """
    scheduler = probe.scheduler
    if not is_awake(scheduler):
        return False
    scheduler.run_queue.append(probe)
    if scheduler.asleep:  # the scheduler fell asleep just now, after it had checked its run queue
        scheduler.wake_loop()
    return True
