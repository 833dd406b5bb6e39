"""Measures how long each dhaga holds its OS thread, and how long it computes, while clients query these times.

The held time of a dhaga is the time from a switch to the dhaga until the next switch. The CPU clock of the thread shows
how much of the held time the dhaga computed. In the rest of the held time, the dhaga waits: in C code, for a processor
or for the interpreter lock. A switch costs about 1 µs more while the times are measured, and nothing more otherwise.
``RunTimes`` adds both times to the greenlet that ran. The class keeps two windows of ``WINDOW`` seconds, current and
previous, so that no share covers only a window that has just begun. The scheduler's thread writes the dicts; the
querying thread copies them. If a dhaga blocks its scheduler, the scheduler may not have installed the observer of
switches yet. Then the heartbeat (a value that changes at each switch) is the same as at the last query, and the whole
window counts as held by the blocking dhaga.

Rejected: sampling from another thread, a hundred times a second. Sampling costs less and misses too much: the sampling
thread runs only when the interpreter lock is released, which hardly ever happens in the middle of a computation. For
dhagas that computed for 2 ms in every 5 ms, sampling measured a share of only 3 %.
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
"""Length of a window in seconds. A share covers between one and two windows."""

BLOCKING_HELD = 0.25
"""A dhaga that holds its OS thread for less than this share of the time is not reported as blocking."""

COMPUTED_PART = 0.25
"""A dhaga that computes for more than this part of its held time is not reported as blocking, because the rest may be a
wait for the interpreter lock. If four OS threads compute concurrently, each of them computes for a quarter of its time.
"""

SHORT_TURN = 0.000_1
"""A turn shorter than this number of seconds counts entirely as CPU time. The thread's CPU clock is not read after such
a turn, because reading the clock is a system call (1.4 µs on a virtual machine). The clock is read after the next
longer turn, such as a sleep of the hub (the greenlet of the event loop).
"""

LEAST_SECONDS = 0.25
"""CPU shares of a shorter period are not reported: right after the first query, all running dhagas would seem to block.
"""


class Share(NamedTuple):
    """The shares (0 to 1) of the elapsed time in which one dhaga or main code held its OS thread, and computed."""

    held: float = 0.0
    cpu: float | None = None  # None if the platform does not report CPU time, and right after the first query
    delayed: float = 0.0  # share of the elapsed time for which the OS thread waited for a processor

    @property
    def blocks(self) -> bool:
        """Whether most of the held time is a wait in C."""
        if self.cpu is None or self.held < BLOCKING_HELD:
            return False
        return self.cpu + self.delayed < self.held * COMPUTED_PART


@dataclass
class Window:
    """The seconds for which each greenlet has held the OS thread and computed since ``began``.

    ``began_cpu`` is the same moment on the thread's CPU clock.
    """

    began: float
    began_cpu: float
    use: ThreadUse
    held: dict[Any, float] = field(default_factory=dict)
    computed: dict[Any, float] = field(default_factory=dict)
    seconds: float = 0.0  # length of the window, once it has ended
    delayed: float = 0.0  # seconds that the thread waited for a processor in the window, once it has ended


class RunTimes:
    """The times of each greenlet of one scheduler in the current and in the previous window."""

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
        """Begin a new window if the current window is long enough."""
        window = self.window
        if now - window.began >= WINDOW:
            window.seconds, window.delayed = now - window.began, window.use.delay()
            self.previous, self.window = window, self.begin_window(now)

    def shares(self, now: float) -> dict[int, Share]:
        """Return the shares of dhagas and main code by ident. The hub is left out, because it also sleeps."""
        window, previous = self.window, self.previous
        if self.running is None:  # no switch has been observed yet
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
        """Return the share of the dhaga that has held the OS thread since the last query, if there is such a dhaga."""
        before, self.heartbeat = self.heartbeat, self.scheduler.heartbeat()
        blocker = running_on(self.scheduler) if before is not None and self.heartbeat == before else None
        if blocker is None:
            return {}
        computed = cpu_seconds(self.scheduler, 0.0) - self.window.began_cpu
        return {blocker.ident: self.share(seconds, seconds, computed, self.window.use.delay())}


def added(current: dict[Any, float], previous: dict[Any, float]) -> dict[Any, float]:
    """Return the sum of each greenlet's seconds in two windows."""
    seconds = dict(current)
    if previous is not current:
        for each, before in dict(previous).items():
            seconds[each] = seconds.get(each, 0.0) + before
    return seconds


class Shares:
    """The shares of all dhagas. They are measured while ``now()`` is called every few seconds. From: any OS thread."""

    def __init__(self) -> None:
        self.run_times: dict[Scheduler, RunTimes] = {}
        self.probe = OnDemand("shares", self.stop)

    def now(self) -> dict[int, Share]:
        """Return the ``Share`` of each ident in the last one to two windows. The first call returns only the dhagas
        that are running.

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
        """Start to measure new schedulers, and discard ended schedulers."""
        for scheduler in schedulers - self.run_times.keys():
            self.run_times[scheduler] = RunTimes(scheduler)
        for scheduler in self.run_times.keys() - schedulers:
            del self.run_times[scheduler]

    def stop(self) -> None:
        """Stop the measurement. The next ``now()`` starts it again."""
        for scheduler, run_times in self.run_times.items():
            unobserve(scheduler, run_times.on_switch)
        self.run_times.clear()
