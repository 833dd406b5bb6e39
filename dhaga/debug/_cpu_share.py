"""Accounting of each dhaga's time, measured at each switch while it is queried: held time and CPU time.

Held is the time from a switch to the next: the dhaga had the OS thread. The CPU clock of the thread says how much of it
the dhaga computed; the rest is a wait in C, or for a processor or the interpreter lock. Meanwhile a switch costs about
1 µs more; otherwise there is no cost. ``RunTimes`` adds up both for the greenlet that ran, in two windows of ``WINDOW``
seconds, the current and the previous one: no share covers only a window that has just begun. Its dicts are written in
the scheduler's thread and read in the querying thread, which copies them. A scheduler that a dhaga blocks may not have
installed the observer yet: then the heartbeat, unchanged since the last query, gives that dhaga all of the held time.

Rejected: sampling from another thread, a hundred times a second. It costs less and misses too much: such a thread runs
when the interpreter lock is released, hardly ever in the middle of a computation. It saw 3 % of the dhagas that compute
for 2 ms in every 5 ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import thread_time
from typing import Any, NamedTuple

from .._kernel.originals import perf_counter
from .._kernel.process.preemption_watcher import cpu_seconds
from .._kernel.run.attachment import schedulers
from .._kernel.run.scheduler import Scheduler
from ._block_cause import ThreadUse
from ._instrumentation import observe, unobserve
from ._on_demand import OnDemand
from ._watchdog import running_on

WINDOW = 1.0
"""Seconds of a window; a share covers the last one to two windows."""

BLOCKING_HELD = 0.25
"""A dhaga that holds its OS thread for a smaller share of the time is not named as blocking it."""

COMPUTED_PART = 0.25
"""A dhaga that computes for a larger part of its turn is not named. The other part may be a wait for the interpreter
lock: of four OS threads that compute beside each other, each computes for a quarter of its time.
"""

SHORT_TURN = 0.000_1
"""A shorter turn counts as computed, in seconds: the clock of the thread is a system call, 1.4 µs on a virtual machine.
The next long turn, or the poll of the hub, reads it.
"""

LEAST_SECONDS = 0.25
"""The CPU time of a shorter period says too little: right after the first query each running dhaga would be named."""


class Share(NamedTuple):
    """Shares of the time, 0 to 1, of one dhaga or main code: it held its OS thread, and it computed."""

    held: float = 0.0
    cpu: float | None = None  # None where the platform does not tell, and right after the first query
    delayed: float = 0.0  # its OS thread waited for a processor

    @property
    def blocks(self) -> bool:
        """Whether most of the held time is a wait in C."""
        if self.cpu is None or self.held < BLOCKING_HELD:
            return False
        return self.cpu + self.delayed < self.held * COMPUTED_PART


@dataclass
class Window:
    """The seconds that each greenlet held the OS thread, and computed, since a moment of both clocks."""

    began: float
    began_cpu: float
    use: ThreadUse
    held: dict[Any, float] = field(default_factory=dict)
    computed: dict[Any, float] = field(default_factory=dict)
    seconds: float = 0.0  # its length, once it has ended
    delayed: float = 0.0  # the thread's waits for a processor in it, once it has ended


class RunTimes:
    """The times of each greenlet of one scheduler, in the current and in the previous window."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.heartbeat = scheduler.heartbeat()
        self.has_clock = cpu_seconds(scheduler, None) is not None
        self.window = self.previous = self.begin_window(perf_counter())
        self.last_switch, self.last_cpu = self.window.began, self.window.began_cpu
        self.running: Any = None  # the current greenlet; None until the first switch is seen
        observe(scheduler, self.on_switch)

    def begin_window(self, now: float) -> Window:
        use = ThreadUse(self.scheduler)
        use.begin_delay()
        return Window(now, cpu_seconds(self.scheduler, 0.0), use)

    def on_switch(self, event: str, between: tuple[Any, Any]) -> None:
        now = perf_counter()
        origin, self.running = between
        window = self.window
        held, computed, turn = window.held, window.computed, now - self.last_switch
        cpu = self.last_cpu + turn if turn < SHORT_TURN else thread_time()
        held[origin] = held.get(origin, 0.0) + now - max(self.last_switch, window.began)
        computed[origin] = computed.get(origin, 0.0) + max(0.0, cpu - max(self.last_cpu, window.began_cpu))
        self.last_switch, self.last_cpu = now, cpu

    def rotate(self, now: float) -> None:
        """Begin a new window if the current one is long enough."""
        window = self.window
        if now - window.began >= WINDOW:
            window.seconds, window.delayed = now - window.began, window.use.delay()
            self.previous, self.window = window, self.begin_window(now)

    def shares(self, now: float) -> dict[int, Share]:
        """Return the shares of dhagas and main code by ident, without the hub, which also sleeps."""
        window, previous = self.window, self.previous
        if self.running is None:  # no switch yet
            return self.share_of_blocker(max(now - window.began, 1e-6))
        seconds = max(now - window.began + previous.seconds, 1e-6)
        held, computed = added(window.held, previous.held), added(window.computed, previous.computed)
        running = self.running
        cpu = cpu_seconds(self.scheduler, 0.0)
        held[running] = held.get(running, 0.0) + max(0.0, now - max(self.last_switch, window.began))
        computed[running] = computed.get(running, 0.0) + max(0.0, cpu - max(self.last_cpu, window.began_cpu))
        delayed = window.use.delay() + previous.delayed
        main = self.scheduler.main_waiter
        idents = {getattr(main, "own_greenlet", main): getattr(main, "ident", 0)}
        return {
            ident: self.share(seconds, held[each], computed.get(each, 0.0), delayed)
            for each in held
            if (ident := getattr(each, "ident", idents.get(each))) is not None
        }

    def share(self, seconds: float, held: float, computed: float, delayed: float) -> Share:
        cpu = min(1.0, computed / seconds) if self.has_clock and seconds >= LEAST_SECONDS else None
        return Share(min(1.0, held / seconds), cpu, delayed / seconds)

    def share_of_blocker(self, seconds: float) -> dict[int, Share]:
        """Return the share of a dhaga that has blocked the scheduler since the last query, if any: it held all time."""
        before, self.heartbeat = self.heartbeat, self.scheduler.heartbeat()
        blocker = running_on(self.scheduler) if before is not None and self.heartbeat == before else None
        if blocker is None:
            return {}
        computed = cpu_seconds(self.scheduler, 0.0) - self.window.began_cpu
        return {blocker.ident: self.share(seconds, seconds, computed, self.window.use.delay())}


def added(current: dict[Any, float], previous: dict[Any, float]) -> dict[Any, float]:
    """Return the sums of two windows, by greenlet."""
    seconds = dict(current)
    if previous is not current:
        for each, before in dict(previous).items():
            seconds[each] = seconds.get(each, 0.0) + before
    return seconds


class Shares:
    """The shares of all dhagas, measured while ``now()`` is called every few seconds. From: any OS thread."""

    def __init__(self) -> None:
        self.run_times: dict[Scheduler, RunTimes] = {}
        self.probe = OnDemand("shares", self.stop)

    def now(self) -> dict[int, Share]:
        """Return the shares of the last one to two windows by ident; empty at the first call.

        Raises: ProbeUnavailable.
        """
        with self.probe:
            self.follow_schedulers()
            now = perf_counter()
            found: dict[int, Share] = {}
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
