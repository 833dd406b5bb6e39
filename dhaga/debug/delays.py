"""How long whoever is runnable waits for its turn: sampled by probes, which queue up as a woken NORMAL dhaga does."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from dhaga.kernel import originals
from dhaga.kernel.scheduler import Errand, Scheduler

BOUNDS = tuple(1e-6 * 4**power for power in range(13))
"""Seconds, from 1 µs to 17 s, each four times the one before; what takes longer is counted beyond the last."""


class Delays:
    """A histogram of delays, in seconds."""

    __slots__ = ("counts", "probe", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0
        self.probe: Probe | None = None  # under way

    def __repr__(self) -> str:
        return f"<Delays {sum(self.counts)}, median up to {self.quantile(0.5):g} s>"

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def quantile(self, share: float) -> float:
        """Return a bound that this share of the delays does not exceed; inf beyond the last, 0 if there are none."""
        wanted = share * sum(self.counts)
        for bound, counted in zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True):
            if counted >= wanted and counted:
                return float(bound)
        return 0.0


class Probe(Errand):
    """Stands in a run queue, and notes when its turn has come."""

    __slots__ = ("queued", "scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.queued = originals.monotonic()

    def make_call(self) -> None:
        delays = sampled.get(self.scheduler)
        if delays is not None and delays.probe is self:
            delays.probe = None
            delays.add(originals.monotonic() - self.queued)


sampled: dict[Scheduler, Delays] = {}
"""What has been seen, by scheduler, as long as a watchdog looks."""


def sample(scheduler: Scheduler) -> None:
    """Send a probe to a scheduler that is awake, from another thread. A sleeping one has nobody wait.

    One at a time: in the queue of a scheduler that is held they would pile up, and tell the same thing.
    """
    if not scheduler.ident or scheduler.asleep:
        return
    delays = sampled.setdefault(scheduler, Delays())
    if delays.probe is None:
        delays.probe = Probe(scheduler)
        scheduler.ready.append(delays.probe)
        if scheduler.asleep:  # just now; it has looked at its queue before that
            scheduler.rouse()
