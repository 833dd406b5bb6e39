"""The preemption watcher: the OS thread that finds overlong turns, and arms the event that ends each.

It compares heartbeats. A scheduler's heartbeat changes with each switch, and is None while nothing runs there. The
kernel needs the numbers in it anyway, so dhagas pay nothing for it. If it has not changed since the last look, and the
thread has computed meanwhile, the turn is overlong.
Once all schedulers have slept for a second, the watcher sleeps until one begins a lap.
A process has one watcher. The watcher ends before a fork and begins again after it; in a child, once there is a
scheduler.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

from .. import hooks, originals
from ..context_manager import contextmanager
from ..helper_threads import start_unlisted, wait_until_gone
from ..interpreter.requirements import FREE_THREADED
from ..platform.system import system
from ..run import preemption
from ..run.attachment import schedulers
from ..run.scheduler import Scheduler
from ..wait import deadlock
from . import stalls
from .preemption_events import Events, monitoring, others_wait

LOOKS_PER_QUANTUM = 4
"""A turn is found one to two looks after its start; the watcher gets the interpreter lock 5 ms later: 7.5 to 10 ms.

Measured beside 1,000 connections: p99 17 ms; with 2 looks 25 ms.
"""

QUICK_SECONDS = 1.0
"""Seconds after an overlong turn with ``LOOKS_PER_QUANTUM`` looks a quantum; later there is one look a quantum.

Each look takes the interpreter lock from the dhagas: 400 a second cost a busy service about 3 % of its CPU time.
"""

TOOL_KEPT_SECONDS = 0.5
"""For this time after an overlong turn the events keep their id of ``sys.monitoring``, which takes 10 µs to get."""

IDLE_LOOKS = 100
"""After this number of looks at sleeping schedulers (a second, with the default quantum) the watcher also sleeps."""

LOOKS_PER_HANDLERS = 200
"""Looks between two at the program's signal handlers, which take 0.3 ms. Those that were set under the patch need none:
they are called by a function of Dhaga.
"""

FORK_COUNTS_BEFORE_HOOKS = not ((3, 13) <= sys.version_info < (3, 13, 10) or (3, 14) <= sys.version_info < (3, 14, 1))
"""Whether a fork counts the threads that it warns of before the parent's hooks start any (gh-137109); 3.11 never warns.
"""

LEAST_SHARE = 0.5
"""A turn that computes for less than this share of its time waits in C, or for a CPU. Ending it would help no other
dhaga.
"""


class Watcher:
    """The thread that looks at the schedulers. It runs from the first preemptive scheduler until ``stop``."""

    def __init__(self) -> None:
        self.looks = 0
        self._stopping = False
        self._native_id = 0
        # The process in which it may begin again.
        self.pid = originals.getpid()
        self._overlong_at = -math.inf
        # Laps in several OS threads may begin at once.
        self._starting = originals.allocate_lock()
        self._rouse = originals.allocate_lock()
        self._rouse.acquire()
        self._beats: dict[Scheduler, Beat] = {}
        self.events = None if monitoring is None else Events()
        self._start()

    def _start(self) -> None:
        # Unknown to threading, which lists the program's threads.
        self.alive = True
        self._ended = originals.allocate_lock()
        self._ended.acquire()
        begun = originals.allocate_lock()
        begun.acquire()
        start_unlisted("dhaga-preemption", self._run, begun)
        # Until it runs, Python 3.11 takes it for its starter: PyThreadState_SetAsyncExc(starter, …) would end it.
        begun.acquire()

    def pause(self) -> None:
        """Stop looking, and wait for the thread's end, until ``resume`` or the next lap of any scheduler.

        From: a fork. From CPython 3.12 on it warns if another thread exists.
        """
        self._stop_thread()
        wait_until_gone(self._native_id)
        hooks.on_lap = self.resume

    def resume(self) -> None:
        """Begin again after a fork. From: any thread."""
        hooks.on_lap = None
        with self._starting:
            if not self.alive and watcher is self:
                self._stopping = False
                self._start()

    def _stop_thread(self) -> None:
        self._stopping = True
        self.rouse()
        if self.alive:
            self._ended.acquire()
            self.alive = False
        hooks.on_lap = None
        self._beats.clear()
        preemption.overlong.clear()

    def stop(self) -> None:
        """Stop looking, wait for the thread's end, and free the events."""
        self._stop_thread()
        if self.events is not None:
            self.events.free_tool()

    def rouse(self) -> None:
        """End the watcher's sleep. From: any thread, a scheduler that begins a lap."""
        hooks.on_lap = None
        with suppress(RuntimeError):  # it was roused already
            self._rouse.release()

    def _run(self, begun: Any) -> None:
        ident = originals.get_ident()
        self._native_id = originals.get_native_id()
        begun.release()
        # It never wakes a dhaga, so the deadlock detector ignores it.
        deadlock.mark_idle(ident)
        idle_looks = 0
        try:
            while not self._stopping:
                if not self.looks % LOOKS_PER_HANDLERS:
                    preemption.signal_handlers = codes_of_signal_handlers()
                quanta = [self._look(scheduler) for scheduler in list(schedulers)]
                self.looks += 1
                if self.events is not None and originals.monotonic() - self._overlong_at > TOOL_KEPT_SECONDS:
                    self.events.free_tool_if_unused()
                shortest = min(filter(None, quanta), default=0)
                idle_looks = 0 if shortest else idle_looks + 1
                if idle_looks > IDLE_LOOKS:
                    hooks.on_lap = self.rouse
                    # Checked again: a lap that has just begun has not seen the hook.
                    if not any(self._look(scheduler) for scheduler in list(schedulers)):
                        self._rouse.acquire()
                    hooks.on_lap = None
                    idle_looks = 0
                self._rouse.acquire(timeout=self._pause(shortest or preemption.QUANTUM))
        finally:
            deadlock.idle.discard(ident)
            self._ended.release()

    def _pause(self, quantum: float) -> float:
        """Return the seconds until the next look."""
        quick = originals.monotonic() - self._overlong_at < QUICK_SECONDS
        return quantum / LOOKS_PER_QUANTUM if quick else quantum

    def _look(self, scheduler: Scheduler) -> float | None:
        """Check a scheduler, and mark an overlong turn. Returns: the quantum if anything runs there."""
        quantum = preemption.quantum_of(scheduler)
        heartbeat = scheduler.heartbeat() if quantum else None
        now = originals.monotonic()
        beat = self._beats.pop(scheduler, None)
        if not quantum or heartbeat is None:
            return None
        if beat is None or beat.heartbeat != heartbeat:
            beat = Beat(heartbeat, now, cpu_seconds(scheduler, 0.0))
            preemption.overlong.pop(scheduler, None)
            if self.events is not None:
                self.events.disarm(scheduler)
        else:
            beat.looks += 1
            if now - beat.since >= (limit := overlong_after(quantum)):
                self._note_long_turn(scheduler, beat, now, limit)
        self._beats[scheduler] = beat
        return quantum

    def _note_long_turn(self, scheduler: Scheduler, beat: Beat, now: float, limit: float) -> None:
        """Mark a turn as overlong if it computes; report it if it has long waited in C, each while others wait."""
        computed, lasted = cpu_seconds(scheduler, math.inf) - beat.computed, now - beat.since
        if computed >= limit * LEAST_SHARE and others_wait(scheduler):
            self._overlong_at = now
            preemption.overlong[scheduler] = scheduler.count_switches()
            if self.events is not None:
                self.events.arm(scheduler)
        if lasted >= stalls.SECONDS and computed < lasted * stalls.STILL_SHARE and beat.looks >= stalls.LEAST_LOOKS:
            stalls.report(scheduler, beat.heartbeat, lasted)
            # The next report of this turn, if its place changes, comes as late.
            beat.since, beat.computed, beat.looks = now, beat.computed + computed, 0


@dataclass(slots=True)
class Beat:
    """A heartbeat, the time when it was first seen, the CPU time of its OS thread then, and how often it was seen."""

    heartbeat: object
    since: float
    computed: float
    looks: int = 0


def overlong_after(quantum: float) -> float:
    """Return the seconds, from the first look at a turn, after which it is overlong.

    Less than the quantum, because the first look comes late by the pause of the watcher and by its wait for the
    interpreter lock, which calls of ``offload`` and the watchdog shorten. Measured with the watchdog: 175 preemptions a
    second of a loop with a fixed quarter of the quantum, where a quantum of 10 ms allows 100.
    """
    wait_for_lock = 0.0 if FREE_THREADED else sys.getswitchinterval()
    return max(quantum / LOOKS_PER_QUANTUM, quantum - quantum / LOOKS_PER_QUANTUM - wait_for_lock)


T = TypeVar("T")


def cpu_seconds(scheduler: Scheduler, unknown: T) -> float | T:
    """Return the CPU time of a scheduler's OS thread so far; ``unknown`` where the platform does not tell."""
    # OSError: the thread has ended.
    with suppress(KeyError, OSError):
        return float(originals.clock_gettime(cpu_clocks[scheduler]))
    return unknown


def codes_of_signal_handlers() -> frozenset[CodeType]:
    """Return the code objects of the program's signal handlers."""
    import signal

    handlers = map(signal.getsignal, signal.valid_signals())
    return frozenset(filter(None, (getattr(handler, "__code__", None) for handler in handlers)))


# ---- on and off

watcher: Watcher | None = None

cpu_clocks: dict[Scheduler, int] = {}
"""The CPU clock of each scheduler's OS thread. The thread itself looks it up: a look-up for a thread that has ended
crashes.
"""


def begin_watch() -> None:
    """Start the watcher; no-op if it runs. From: any thread."""
    global watcher
    if watcher is None:
        watcher = Watcher()
    elif not watcher.alive and watcher.pid == originals.getpid():
        watcher.resume()


def resume_after_fork() -> None:
    """Look on, in the parent. From: a hook of the fork, or the function that has forked."""
    if watcher is not None and not watcher.alive:
        watcher.resume()


def turn_on(quantum: float = preemption.QUANTUM) -> None:
    """Make all schedulers preemptive that have no quantum of their own."""
    preemption.default_quantum = quantum
    begin_watch()


def turn_on_for_patch() -> None:
    """Turn preemption on, unless the environment says otherwise: a patched program was written for threads."""
    if preemption.environment != 0:
        turn_on(preemption.environment or preemption.QUANTUM)


def turn_off() -> None:
    """Make schedulers cooperative again, except for those with a quantum of their own, or by the environment."""
    global watcher
    preemption.default_quantum = preemption.environment or None
    if preemption.default_quantum:
        return
    if watcher is not None and not any(scheduler.quantum for scheduler in schedulers):
        stopped, watcher = watcher, None
        stopped.stop()


@contextmanager
def suspended() -> Iterator[None]:
    """Preempt nothing in the block: the watcher would end turns of a simulation at moments that no seed decides."""
    global watcher
    stopped, watcher = watcher, None
    quantum, preemption.default_quantum = preemption.default_quantum, None
    if stopped is not None:
        stopped.stop()
    try:
        yield
    finally:
        preemption.default_quantum = quantum
        if stopped is not None:
            begin_watch()


def watch_scheduler(scheduler: Scheduler, attached: bool) -> None:
    """Start the watcher with the first scheduler that has a quantum of its own. From: the scheduler's thread."""
    if not attached:
        cpu_clocks.pop(scheduler, None)
        return
    if originals.pthread_getcpuclockid is not None:
        cpu_clocks[scheduler] = originals.pthread_getcpuclockid(originals.get_ident())
    if preemption.quantum_of(scheduler):
        begin_watch()


def count_threads() -> int:
    """Return how many OS threads are the watcher's."""
    return int(watcher is not None and watcher.alive)


def pause_for_fork() -> None:
    if watcher is not None:
        watcher.pause()


def after_fork_in_child() -> None:
    """Replace the locks that another thread of the parent may have held; look on if there is a scheduler."""
    if watcher is not None:
        watcher._starting = originals.allocate_lock()
        if watcher.events is not None:
            watcher.events.arming = originals.RLock()
        watcher.pid = originals.getpid()
        if schedulers:
            watcher.resume()


system.register_at_fork(before=pause_for_fork)
if FORK_COUNTS_BEFORE_HOOKS:
    # Otherwise ``dhaga.os.fork`` resumes the watcher when it returns; after other forks the next lap does.
    system.register_at_fork(after_in_parent=resume_after_fork)
hooks.in_forked_child.append(after_fork_in_child)
hooks.on_scheduler.append(watch_scheduler)
