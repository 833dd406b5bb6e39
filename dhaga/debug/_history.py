"""The last minutes in figures: runnable and parked dhagas, the lag and preemptions, sampled once a second by an OS
thread.

A sample is ``[time, runnable, parked, lag, preempted]``: wall clock, counts over all schedulers, the longest run-queue
delay of any of them in seconds, and the turns ended by preemption, per second since the last sample. A ``LagProbe`` for
each scheduler measures the lag: it waits in the run queue like a woken dhaga. While it waits, its age is the lag, so a
blocked scheduler shows at once. An inspector and a page keep a history while they run, so that it reaches back to
before the first query. A sample costs about 20 µs.
"""

from __future__ import annotations

import time
from collections import deque

from .._kernel import originals
from .._kernel.run import preemption
from .._kernel.run.attachment import schedulers
from .._kernel.run.entries import HubCall
from .._kernel.run.scheduler import Scheduler
from ._helper_thread import HelperThread, idle
from ._stats import enqueue

SAMPLE_SECONDS = 1.0
"""Time between two samples."""

KEPT_SAMPLES = 600
"""Ten minutes; a sample takes about 150 bytes."""

Sample = tuple[float, int, int, float, float]
"""Time of the sample, runnable and parked dhagas, the lag in seconds, and preemptions per second."""


class LagProbe(HubCall):
    """An entry of the run queue that notes how long it waited there."""

    __slots__ = ("delay", "queued", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.queued = originals.monotonic()
        self.delay: float | None = None

    def make_call(self) -> None:
        self.delay = originals.monotonic() - self.queued

    def lag(self) -> float:
        """Return the delay, or how long the probe has waited so far."""
        delay = self.delay
        return originals.monotonic() - self.queued if delay is None else delay


def count_preemptions() -> tuple[int, float]:
    """Return the turns ended by preemption so far, and the time. Those of ended schedulers count."""
    return preemption.places.total(), originals.monotonic()


class History:
    """Samples of the last minutes, while it is started. From: any OS thread."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self.probes: dict[Scheduler, LagProbe] = {}
        self.preemptions = count_preemptions()
        self.closing = originals.allocate_lock()  # released by close(), which ends the thread's wait
        self.thread: HelperThread | None = None

    def start(self) -> None:
        """Sample until ``close``."""
        self.closing.acquire()
        self.thread = HelperThread("history", self.run)

    def close(self) -> None:
        """Stop sampling, and join the thread."""
        if self.thread is not None and self.closing.locked():
            self.closing.release()
            self.thread.join()

    def run(self) -> None:
        """Sample; the thread's function."""
        closed = False
        while not closed:
            self.sample()
            with idle():
                closed = self.closing.acquire(timeout=SAMPLE_SECONDS)

    def sample(self) -> None:
        """Add a sample, and put a probe into each run queue whose last probe has run."""
        running = list(schedulers)
        self.probes = {each: probe for each, probe in self.probes.items() if each in running}
        lag = max((probe.lag() for probe in self.probes.values()), default=0.0)
        waiting = {each: probe for each, probe in self.probes.items() if probe.delay is None}
        runnable = sum(each.count_runnable() for each in running) - len(waiting)
        parked = sum(bool(dhaga.parked) for each in running for dhaga in list(each.live))
        self.samples.append((time.time(), max(0, runnable), parked, lag, self.preemption_rate()))
        self.probes = waiting
        for scheduler in running:
            if scheduler.live and scheduler not in waiting:
                probe = LagProbe(scheduler)
                if enqueue(probe):
                    self.probes[scheduler] = probe

    def preemption_rate(self) -> float:
        """Return the preemptions per second since the last call."""
        (before, since), self.preemptions = self.preemptions, count_preemptions()
        total, now = self.preemptions
        return max(0, total - before) / max(now - since, 1e-3)

    def since(self, moment: float) -> list[Sample]:
        """Return the samples after a moment of the wall clock."""
        return [sample for sample in list(self.samples) if sample[0] > moment]
