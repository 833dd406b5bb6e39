"""The history of the last minutes: the counts of runnable and parked dhagas, the lag, and preemptions. An OS thread
samples these values once a second.

A sample is ``[time, runnable, parked, lag, preempted]``: the wall clock, two counts over all schedulers, the lag in
seconds, and the number of preemptions per second. The lag is the longest run-queue delay of any scheduler. To measure
this delay, a ``LagProbe`` waits in each scheduler's run queue like a woken dhaga. While a probe still waits, its age
counts as the delay, so a blocked scheduler is visible at once. An inspector and a debug page record a history while
they run, so that the history includes the time before the first query. A sample costs about 20 µs.
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
"""Number of seconds between two samples."""

KEPT_SAMPLES = 600
"""Number of samples that are kept, which cover ten minutes. A sample takes about 150 bytes."""

Sample = tuple[float, int, int, float, float]
"""The time, the numbers of runnable and parked dhagas, the lag in seconds, and the preemptions per second."""


class LagProbe(HubCall):
    """A call in the run queue that measures its own time in the queue."""

    __slots__ = ("delay", "queued", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.queued = originals.monotonic()
        self.delay: float | None = None

    def make_call(self) -> None:
        self.delay = originals.monotonic() - self.queued

    def lag(self) -> float:
        """Return the time from the queueing of the probe to its run, or, before its run, the time so far."""
        delay = self.delay
        return originals.monotonic() - self.queued if delay is None else delay


def count_preemptions() -> tuple[int, float]:
    """Return the number of turns that preemption has ended so far, and the current time. Turns of ended schedulers are
    included.
    """
    return preemption.places.total(), originals.monotonic()


class History:
    """Samples of the last minutes, taken from ``start`` to ``close``. From: any OS thread."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT_SAMPLES)
        self.probes: dict[Scheduler, LagProbe] = {}
        self.preemptions = count_preemptions()
        self.closing = originals.allocate_lock()  # close() releases it, which ends the thread's wait
        self.thread: HelperThread | None = None

    def start(self) -> None:
        """Start sampling; ``close`` stops it."""
        self.closing.acquire()
        self.thread = HelperThread("history", self.run)

    def close(self) -> None:
        """Stop sampling, and join the thread."""
        if self.thread is not None and self.closing.locked():
            self.closing.release()
            self.thread.join()

    def run(self) -> None:
        """Add samples until ``close``. This is the function of the thread."""
        closed = False
        while not closed:
            self.sample()
            with idle():
                closed = self.closing.acquire(timeout=SAMPLE_SECONDS)

    def sample(self) -> None:
        """Add a sample. Put a new probe into the run queue of each awake scheduler that has dhagas and no waiting
        probe.
        """
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
        """Return the number of preemptions per second since the last call."""
        (before, since), self.preemptions = self.preemptions, count_preemptions()
        total, now = self.preemptions
        return max(0, total - before) / max(now - since, 1e-3)

    def since(self, moment: float) -> list[Sample]:
        """Return the samples taken after a given time of the wall clock."""
        return [sample for sample in list(self.samples) if sample[0] > moment]
