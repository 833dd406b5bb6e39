"""The preemption watcher: the OS thread that finds overlong turns, and arms the event that ends each (preemption.py).

It compares heartbeats. A scheduler's heartbeat changes with each switch and is None while nothing runs there; the
kernel keeps its parts anyway, so that dhagas pay nothing for it. If it has not changed since a look half a quantum ago
or earlier, the turn is overlong. The watcher also needs the interpreter lock, which Python takes from the computing
thread only after another 5 ms: so a turn lasts one to two quanta.
Once all schedulers have slept for a second, the watcher sleeps until one begins a lap.
A process has one watcher. It ends before a fork, and begins again, in parent and child, with the next lap.
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from .. import hooks, originals
from ..run import preemption
from ..run.call_outs import is_of_dhaga, is_switchable, program_frame
from ..run.run_modes import GuestMode
from ..run.scheduler import Scheduler, schedulers
from ..wait import deadlock

LOOKS_PER_QUANTUM = 2

IDLE_LOOKS = 200
"""After this number of looks at sleeping schedulers (a second, with the default quantum) the watcher also sleeps."""

LOOKS_PER_HANDLERS = 200
"""Looks between two at the program's signal handlers, which take 0.3 ms. Those that were set under the patch need none:
they are called by a function of Dhaga.
"""

LEAST_SHARE = 0.5
"""A turn that computes less than this share of its time waits in C, or for a CPU: to end it would help no other."""

TOOL_NAME = "dhaga preemption"

TOOLS = (4, 3)
"""Ids that CPython leaves to anyone; 0 to 2 and 5 are for debuggers, coverage, profilers and optimisers."""

monitoring: Any = getattr(sys, "monitoring", None)
"""From CPython 3.12 on."""


class Watcher:
    """The thread that looks at the schedulers. It runs from the first preemptive scheduler until ``stop``."""

    def __init__(self) -> None:
        self.looks = 0
        self._stopping = False
        self._rouse = originals.allocate_lock()
        self._rouse.acquire()
        # The heartbeat of each running scheduler, the time when it was first seen, and the CPU time then.
        self._beats: dict[Scheduler, tuple[object, float, float]] = {}
        self.events = None if monitoring is None else Events()
        self._start()

    def _start(self) -> None:
        self._thread = originals.Thread(target=self._run, name="dhaga-preemption", daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Stop looking, and join the thread, until the next lap of any scheduler.

        From: a fork, which from CPython 3.12 on warns of every other thread; after the fork, so that only a lap may
        start it again.
        """
        self._stop_thread()
        hooks.on_lap = self._resume

    def _resume(self) -> None:
        hooks.on_lap = None
        if not self._thread.is_alive() and watcher is self:
            self._stopping = False
            self._start()

    def _stop_thread(self) -> None:
        self._stopping = True
        self.rouse()
        self._thread.join()
        hooks.on_lap = None
        self._beats.clear()
        preemption.overlong.clear()

    def stop(self) -> None:
        """Stop looking, join the thread and free the events."""
        self._stop_thread()
        if self.events is not None:
            self.events.close()

    def rouse(self) -> None:
        """End the watcher's sleep. From: any thread, a scheduler that begins a lap."""
        hooks.on_lap = None
        with suppress(RuntimeError):  # it was roused already
            self._rouse.release()

    def _run(self) -> None:
        ident = originals.get_ident()
        # It never wakes a dhaga, so the deadlock detector ignores it.
        deadlock.mark_idle(ident)
        idle_looks = 0
        try:
            while not self._stopping:
                if not self.looks % LOOKS_PER_HANDLERS:
                    preemption.signal_handlers = codes_of_signal_handlers()
                quanta = [self._look(scheduler) for scheduler in list(schedulers)]
                self.looks += 1
                shortest = min(filter(None, quanta), default=0)
                idle_looks = 0 if shortest else idle_looks + 1
                if idle_looks > IDLE_LOOKS:
                    hooks.on_lap = self.rouse
                    # Checked again: a lap that has just begun has not seen the hook.
                    if not any(self._look(scheduler) for scheduler in list(schedulers)):
                        self._rouse.acquire()
                    hooks.on_lap = None
                    idle_looks = 0
                self._rouse.acquire(timeout=(shortest or preemption.QUANTUM) / LOOKS_PER_QUANTUM)
        finally:
            deadlock.idle.discard(ident)

    def _look(self, scheduler: Scheduler) -> float | None:
        """Check a scheduler, and mark an overlong turn. Returns: the quantum if anything runs there."""
        quantum = preemption.quantum_of(scheduler)
        beat = scheduler.heartbeat() if quantum else None
        now = originals.monotonic()
        former, since, computed = self._beats.pop(scheduler, (None, now, 0.0))
        if not quantum or beat is None:
            return None
        if beat != former:
            since, computed = now, cpu_seconds(scheduler, 0.0)
            preemption.overlong.pop(scheduler, None)
            if self.events is not None:
                self.events.disarm(scheduler)
        elif (
            now - since >= quantum / LOOKS_PER_QUANTUM
            and cpu_seconds(scheduler, math.inf) - computed >= quantum / LOOKS_PER_QUANTUM * LEAST_SHARE
            and others_wait(scheduler)
        ):
            preemption.overlong[scheduler] = scheduler.count_switches()
            if self.events is not None:
                self.events.arm(scheduler)
        self._beats[scheduler] = beat, since, computed
        return quantum


def cpu_seconds(scheduler: Scheduler, unknown: float) -> float:
    """Return the CPU time of a scheduler's OS thread so far; ``unknown`` where the platform does not tell."""
    ident = scheduler.thread_ident
    if ident and originals.pthread_getcpuclockid is not None:
        # Read above, and no other thread has run since: an OS thread that has ended must not be asked.
        clock = originals.pthread_getcpuclockid(ident)
        with suppress(OSError):
            return float(originals.clock_gettime(clock))
    return unknown


def others_wait(scheduler: Scheduler) -> bool:
    """Return whether anything else could run on the scheduler's thread: a turn without rivals may last.

    From: another thread. In doubt True: an unnecessary end of a turn costs 0.1 ms.
    """
    return bool(
        scheduler.count_runnable()
        or len(scheduler.live) > 1
        or len(scheduler.timers)
        or scheduler.poller.watchers
        or scheduler.outside_calls
        or isinstance(scheduler.mode, GuestMode)
    )


class Events:
    """Layer two: events of ``sys.monitoring`` at the function that computes."""

    def __init__(self) -> None:
        kinds = monitoring.events
        self._kinds = kinds.JUMP | kinds.CALL | kinds.PY_START | kinds.PY_RETURN | kinds.PY_YIELD
        self._leave_tracing, self._enter_tracing, self._thread_state = tracing_functions()
        self._armed: dict[Scheduler, CodeType] = {}
        self.everywhere = False
        # None if other tools own all ids.
        self.tool: int | None = None
        for tool in TOOLS:
            try:
                monitoring.use_tool_id(tool, TOOL_NAME)
            except ValueError:
                continue
            self.tool = tool
            for kind in (kinds.JUMP, kinds.CALL, kinds.PY_START, kinds.PY_RETURN, kinds.PY_YIELD):
                monitoring.register_callback(tool, kind, self._on_event)
            break

    def close(self) -> None:
        """Disarm all, and free the tool's id."""
        for scheduler in list(self._armed):
            self.disarm(scheduler)
        if self.tool is not None:
            monitoring.free_tool_id(self.tool)
            self.tool = None

    def arm(self, scheduler: Scheduler) -> None:
        """Arm the innermost function of the program that runs on a scheduler, if a turn may end in it."""
        self.disarm(scheduler)
        if self.tool is None or debugger_is_on():
            return
        frame = program_frame(sys._current_frames().get(scheduler.thread_ident))
        if frame is not None and is_switchable(frame, preemption.signal_handlers):
            self._armed[scheduler] = frame.f_code
            monitoring.set_local_events(self.tool, frame.f_code, self._kinds)

    def disarm(self, scheduler: Scheduler) -> None:
        code = self._armed.pop(scheduler, None)
        if code is not None and self.tool is not None and code not in self._armed.values():
            monitoring.set_local_events(self.tool, code, 0)

    def arm_everywhere(self, on: bool) -> None:
        """Arm every function, long turn or not: see ``dhaga.testing.preempt_everywhere``."""
        self.everywhere = on
        monitoring.set_events(self.tool, self._kinds if on else 0)

    def _on_event(self, code: CodeType, *_: object) -> None:
        """End the turn that the event was armed for. From: the function that computes."""
        me = preemption.running_waiter()
        if me is None:
            return
        if self.is_for_each(me.scheduler, code) if self.everywhere else self.is_for(me.scheduler, code):
            frame: FrameType = sys._getframe(1)
            if preemption.may_end_turn(me, frame):
                self._end_turn(me, frame)

    def is_for_each(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether an event of ``arm_everywhere`` is to end the turn."""
        return not is_of_dhaga(code.co_filename) and others_wait(scheduler)

    def is_for(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether an event is the one that a scheduler's overlong turn is to end at, and disarm it."""
        # Another OS thread may run the same function.
        if self._armed.get(scheduler) is not code:
            return False
        self.disarm(scheduler)
        return preemption.overlong.pop(scheduler, None) == scheduler.count_switches()

    def _end_turn(self, me: Any, frame: FrameType) -> None:
        # Until this returns the interpreter calls no tool in this OS thread: other dhagas must not run like that.
        state = self._thread_state()
        self._leave_tracing(state)
        try:
            preemption.end_turn(me, frame)
        finally:
            self._enter_tracing(state)


def tracing_functions() -> tuple[Any, Any, Any]:
    """Return CPython's functions that leave and enter tracing, and the one that returns the thread's state for them."""
    import ctypes

    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_void_p
    leave, enter = ctypes.pythonapi.PyThreadState_LeaveTracing, ctypes.pythonapi.PyThreadState_EnterTracing
    leave.argtypes = enter.argtypes = [ctypes.c_void_p]
    leave.restype = enter.restype = None
    return leave, enter, state


def debugger_is_on() -> bool:
    """Return whether a debugger or a coverage tool has registered for events, which are then left to it."""
    return any(monitoring.get_tool(tool) for tool in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID))


def codes_of_signal_handlers() -> frozenset[CodeType]:
    """Return the code objects of the program's signal handlers."""
    import signal

    handlers = map(signal.getsignal, signal.valid_signals())
    return frozenset(filter(None, (getattr(handler, "__code__", None) for handler in handlers)))


# ---- on and off

watcher: Watcher | None = None


def begin_watch() -> None:
    """Start the watcher; no-op if it runs. From: any thread."""
    global watcher
    if watcher is None:
        watcher = Watcher()


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


def watch_scheduler(scheduler: Scheduler, attached: bool) -> None:
    """Start the watcher with the first scheduler that has a quantum of its own."""
    if attached and preemption.quantum_of(scheduler):
        begin_watch()


def pause_for_fork() -> None:
    if watcher is not None:
        watcher.pause()


os.register_at_fork(before=pause_for_fork)
hooks.on_scheduler.append(watch_scheduler)
