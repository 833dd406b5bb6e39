"""The preemption watcher: the OS thread that finds overlong turns, and arms the events that end these turns.

The watcher compares heartbeats. A scheduler's heartbeat changes with each switch, and is None while the scheduler runs
no code. The heartbeat consists of numbers that the kernel needs in any case, so the heartbeat costs dhagas nothing. A
turn is overlong if the heartbeat stays the same for about a quantum while the OS thread computes.
Once all schedulers have slept for a second, the watcher sleeps until a scheduler begins a lap (in which the scheduler
runs its dhagas).
A process has one watcher. The watcher's thread ends before a fork, and is started again after the fork. In the child,
the watcher starts only after the child has made a scheduler.
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
"""The number of checks in a quantum. With the default quantum, a check is made every 2.5 ms. The watcher finds an
overlong turn one to two such intervals after the turn's start, and then waits 5 ms for the interpreter lock. So the
turn ends 7.5 to 10 ms after its start.

Measured beside 1,000 connections: the p99 latency is 17 ms with 4 checks, and 25 ms with 2 checks.
"""

QUICK_SECONDS = 1.0
"""The time after an overlong turn during which there are ``LOOKS_PER_QUANTUM`` checks a quantum. After this time, there
is one check a quantum.

Each check takes the interpreter lock from the dhagas: 400 checks a second cost a busy service 3 % of its CPU time.
"""

TOOL_KEPT_SECONDS = 0.5
"""The time for which the events keep their tool id after an overlong turn. Acquiring a tool id takes 10 µs."""

IDLE_LOOKS = 100
"""The number of checks that find all schedulers asleep before the watcher sleeps. By default they take a second."""

LOOKS_PER_HANDLERS = 200
"""The number of checks between two reads of the program's signal handlers. A read takes 0.3 ms. Handlers that were set
under the patch need no reading, because a function of Dhaga calls them.
"""

FORK_COUNTS_BEFORE_HOOKS = not ((3, 13) <= sys.version_info < (3, 13, 10) or (3, 14) <= sys.version_info < (3, 14, 1))
"""Whether a fork counts the other threads, to warn of them, before the parent's hooks may start threads (gh-137109).
CPython 3.11 never warns.
"""

LEAST_SHARE = 0.5
"""The lowest CPU time, as a share of ``overlong_after``, at which a turn counts as computing. With less CPU time, the
turn waits in C or for a CPU, and ending the turn would help no other dhaga.
"""


class Watcher:
    """The thread that checks the schedulers, from the start of the first preemptive scheduler until ``stop``."""

    def __init__(self) -> None:
        self.looks = 0
        self._stopping = False
        self._native_id = 0
        # The PID of the process in which the watcher may be started again.
        self.pid = originals.getpid()
        self._overlong_at = -math.inf
        # A lock, because laps in several OS threads may begin at the same time and resume the watcher.
        self._starting = originals.allocate_lock()
        self._rouse = originals.allocate_lock()
        self._rouse.acquire()
        self._beats: dict[Scheduler, Beat] = {}
        self.events = None if monitoring is None else Events()
        self._start()

    def _start(self) -> None:
        # The thread is unlisted, so that threading does not report it as one of the program's threads.
        self.alive = True
        self._ended = originals.allocate_lock()
        self._ended.acquire()
        begun = originals.allocate_lock()
        begun.acquire()
        start_unlisted("dhaga-preemption", self._run, begun)
        # On Python 3.11 a new thread has its starter's ident until the new thread runs. Until then,
        # PyThreadState_SetAsyncExc(starter, …) would end the new thread.
        begun.acquire()

    def pause(self) -> None:
        """End the thread, and wait for its end. The thread is started again by ``resume`` or by the next lap of any
        scheduler.

        From: a hook before a fork. From CPython 3.12 on, a fork warns if another thread exists.
        """
        self._stop_thread()
        wait_until_gone(self._native_id)
        hooks.on_lap = self.resume

    def resume(self) -> None:
        """Start the thread again after a fork. From: any thread."""
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
        """End the thread, wait for its end, and free the tool id of the events."""
        self._stop_thread()
        if self.events is not None:
            self.events.free_tool()

    def rouse(self) -> None:
        """End the watcher's sleep. From: any thread, for example a scheduler's thread that begins a lap."""
        hooks.on_lap = None
        with suppress(RuntimeError):  # another thread has released the lock already
            self._rouse.release()

    def _run(self, begun: Any) -> None:
        ident = originals.get_ident()
        self._native_id = originals.get_native_id()
        begun.release()
        # The deadlock detector ignores this thread, because it never wakes a dhaga.
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
                    # The schedulers are checked again, because a lap that has just begun has not seen the hook.
                    if not any(self._look(scheduler) for scheduler in list(schedulers)):
                        self._rouse.acquire()
                    hooks.on_lap = None
                    idle_looks = 0
                self._rouse.acquire(timeout=self._pause(shortest or preemption.QUANTUM))
        finally:
            deadlock.idle.discard(ident)
            self._ended.release()

    def _pause(self, quantum: float) -> float:
        """Return the seconds until the next check."""
        quick = originals.monotonic() - self._overlong_at < QUICK_SECONDS
        return quantum / LOOKS_PER_QUANTUM if quick else quantum

    def _look(self, scheduler: Scheduler) -> float | None:
        """Check a scheduler, and mark an overlong turn. Returns: the quantum; None if nothing can be preempted now."""
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
        """Mark a turn as overlong if it computes and other dhagas wait. If the turn waits in C, report a stall."""
        computed, lasted = cpu_seconds(scheduler, math.inf) - beat.computed, now - beat.since
        if computed >= limit * LEAST_SHARE and others_wait(scheduler):
            self._overlong_at = now
            preemption.overlong[scheduler] = scheduler.count_switches()
            if self.events is not None:
                self.events.arm(scheduler)
        if lasted >= stalls.SECONDS and computed < lasted * stalls.STILL_SHARE and beat.looks >= stalls.LEAST_LOOKS:
            stalls.report(scheduler, beat.heartbeat, lasted)
            # The checks are counted from 0 again. If this turn later waits at another place, that wait is reported
            # after the same time.
            beat.since, beat.computed, beat.looks = now, beat.computed + computed, 0


@dataclass(slots=True)
class Beat:
    """A heartbeat, the time of its first check, the OS thread's CPU time at that check, and the number of later
    checks.
    """

    heartbeat: object
    since: float
    computed: float
    looks: int = 0


def overlong_after(quantum: float) -> float:
    """Return the seconds after which a turn is overlong, counted from the watcher's first check of the turn.

    This time is less than the quantum, because the first check comes late: after the watcher's pause and the watcher's
    wait for the interpreter lock. Calls of ``offload`` and the watchdog shorten this wait (``sys.setswitchinterval``).
    A fixed quarter of the quantum would be too short: with the watchdog, a loop was preempted 175 times a second. A
    quantum of 10 ms allows 100 preemptions a second.
    """
    wait_for_lock = 0.0 if FREE_THREADED else sys.getswitchinterval()
    return max(quantum / LOOKS_PER_QUANTUM, quantum - quantum / LOOKS_PER_QUANTUM - wait_for_lock)


T = TypeVar("T")


def cpu_seconds(scheduler: Scheduler, unknown: T) -> float | T:
    """Return the CPU time of a scheduler's OS thread so far; ``unknown`` if the platform does not report it."""
    # OSError means that the thread has ended.
    with suppress(KeyError, OSError):
        return float(originals.clock_gettime(cpu_clocks[scheduler]))
    return unknown


def codes_of_signal_handlers() -> frozenset[CodeType]:
    """Return the code objects of the program's signal handlers."""
    import signal

    handlers = map(signal.getsignal, signal.valid_signals())
    return frozenset(filter(None, (getattr(handler, "__code__", None) for handler in handlers)))


# ---- turning preemption on and off

watcher: Watcher | None = None

cpu_clocks: dict[Scheduler, int] = {}
"""The CPU clock of each scheduler's OS thread. The thread itself looks the clock up, because a lookup for a thread that
has ended crashes.
"""


def begin_watch() -> None:
    """Start the watcher unless it runs. From: any thread."""
    global watcher
    if watcher is None:
        watcher = Watcher()
    elif not watcher.alive and watcher.pid == originals.getpid():
        watcher.resume()


def resume_after_fork() -> None:
    """Start the watcher's thread again in the parent. From: a hook of the fork, or the function that has forked."""
    if watcher is not None and not watcher.alive:
        watcher.resume()


def turn_on(quantum: float = preemption.QUANTUM) -> None:
    """Make all schedulers preemptive. A scheduler with a quantum of its own keeps this quantum."""
    preemption.default_quantum = quantum
    begin_watch()


def turn_on_for_patch() -> None:
    """Turn preemption on for a patched program, which was written for threads, unless the environment turns preemption
    off.
    """
    if preemption.environment != 0:
        turn_on(preemption.environment or preemption.QUANTUM)


def turn_off() -> None:
    """Make schedulers cooperative again, except for schedulers with a quantum of their own or from the environment."""
    global watcher
    preemption.default_quantum = preemption.environment or None
    if preemption.default_quantum:
        return
    if watcher is not None and not any(scheduler.quantum for scheduler in schedulers):
        stopped, watcher = watcher, None
        stopped.stop()


@contextmanager
def suspended() -> Iterator[None]:
    """Turn preemption off during the block. From: simulations, whose turns must depend only on the seed."""
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
    """Start the watcher if a new scheduler has a quantum, and store the scheduler's CPU clock. From: the scheduler's
    thread.
    """
    if not attached:
        cpu_clocks.pop(scheduler, None)
        return
    if originals.pthread_getcpuclockid is not None:
        cpu_clocks[scheduler] = originals.pthread_getcpuclockid(originals.get_ident())
    if preemption.quantum_of(scheduler):
        begin_watch()


def count_threads() -> int:
    """Return the number of the watcher's OS threads: 1 or 0."""
    return int(watcher is not None and watcher.alive)


def pause_for_fork() -> None:
    if watcher is not None:
        watcher.pause()


def after_fork_in_child() -> None:
    """Replace the locks that another thread of the parent may have held. If there is a scheduler, start the watcher's
    thread.
    """
    if watcher is not None:
        watcher._starting = originals.allocate_lock()
        if watcher.events is not None:
            watcher.events.arming = originals.RLock()
        watcher.pid = originals.getpid()
        if schedulers:
            watcher.resume()


system.register_at_fork(before=pause_for_fork)
if FORK_COUNTS_BEFORE_HOOKS:
    # On other versions, ``dhaga.os.fork`` resumes the watcher after the fork. After any other fork, the next lap
    # resumes the watcher.
    system.register_at_fork(after_in_parent=resume_after_fork)
hooks.in_forked_child.append(after_fork_in_child)
hooks.on_scheduler.append(watch_scheduler)
