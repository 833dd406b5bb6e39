"""Figures of each scheduler: what it has done so far, and what it has to do now."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dhaga.kernel.scheduler import Scheduler, schedulers

from .delays import BOUNDS, sampled


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """One scheduler. Counts are from its begin; they are plain reads, from another thread a few events late."""

    name: str
    seconds: float  # since its begin
    live: int  # dhagas
    parked: int
    runnable: int  # in the run queues
    switches: int
    laps: int
    events: int  # of file descriptors
    timers: int  # armed
    timers_fired: int
    busy: float  # share of the time in which dhagas, or what they have woken, ran
    delays: tuple[int, ...]  # from wake to run, sampled while a watchdog looks: counts by BOUNDS, the last beyond them
    delay_seconds: float  # their sum


@dataclass(frozen=True, slots=True)
class Stats:
    """All schedulers of this process, by name. ``bounds``: of the histograms, in seconds."""

    pid: int
    schedulers: tuple[SchedulerStats, ...]
    bounds: tuple[float, ...] = BOUNDS


def stats() -> Stats:
    """Return figures of every scheduler. Parks: never. From: any thread."""
    ordered = sorted(schedulers, key=lambda each: each.name)
    return Stats(os.getpid(), tuple(map(stats_of, ordered)))


def stats_of(scheduler: Scheduler) -> SchedulerStats:
    """Return the figures of one scheduler."""
    seconds = scheduler.clock() - scheduler.began
    dhagas = list(scheduler.live)
    delays = sampled.get(scheduler)
    return SchedulerStats(
        name=scheduler.name,
        seconds=seconds,
        live=len(dhagas),
        parked=sum(bool(dhaga.parked) for dhaga in dhagas),
        runnable=scheduler.runnable(),
        switches=scheduler.switches(),
        laps=scheduler.laps,
        events=scheduler.poller.events,
        timers=len(scheduler.timers),
        timers_fired=scheduler.timers.fired,
        busy=min(1.0, scheduler.busy / seconds) if seconds > 0 else 0.0,
        delays=() if delays is None else tuple(delays.counts),
        delay_seconds=0.0 if delays is None else delays.total,
    )
