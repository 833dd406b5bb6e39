"""The events that end turns: layer two of preemption (``run/preemption.py``), by ``sys.monitoring``.

The watcher arms the innermost function of the program on a scheduler, and the first event there ends the turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .. import originals
from ..run import preemption
from ..run.call_outs import is_of_dhaga, is_switchable, program_frame
from ..run.run_modes import GuestMode
from ..run.scheduler import Scheduler
from ..wait.current import running_waiter

TOOL_NAME = "dhaga preemption"

TOOLS = (4, 3)
"""Ids that CPython leaves to anyone; 0 to 2 and 5 are for debuggers, coverage, profilers and optimisers."""

JUMPS_MAY_RAISE = sys.version_info >= (3, 14)

monitoring: Any = getattr(sys, "monitoring", None)
"""From CPython 3.12 on."""


class Events:
    """Layer two: events of ``sys.monitoring`` at the function that computes."""

    def __init__(self) -> None:
        kinds = monitoring.events
        self._kinds = kinds.JUMP | kinds.CALL | kinds.PY_START | kinds.PY_RETURN | kinds.PY_YIELD
        self._leave_tracing, self._enter_tracing, self._thread_state = tracing_functions()
        self._armed: dict[Scheduler, CodeType] = {}
        # Two schedulers may run one function: re-entrant, as an event of this thread may come while it is held.
        self.arming: Any = originals.RLock()
        self.everywhere: Callable[[], bool] | None = None
        # None if other tools own all ids.
        self.tool: int | None = None
        for tool in TOOLS:
            try:
                monitoring.use_tool_id(tool, TOOL_NAME)
            except ValueError:
                continue
            self.tool = tool
            for kind in (kinds.CALL, kinds.PY_START, kinds.PY_RETURN, kinds.PY_YIELD):
                monitoring.register_callback(tool, kind, self._on_event)
            monitoring.register_callback(tool, kinds.JUMP, self._on_jump)
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
            self._arm_function(scheduler, frame.f_code, self._kinds)

    def _arm_function(self, scheduler: Scheduler, code: CodeType, kinds: int) -> None:
        with self.arming:
            self._armed[scheduler] = code
            monitoring.set_local_events(self.tool, code, kinds)

    def disarm(self, scheduler: Scheduler) -> None:
        with self.arming:
            code = self._armed.pop(scheduler, None)
            if code is not None and self.tool is not None and code not in self._armed.values():
                monitoring.set_local_events(self.tool, code, 0)

    def arm_everywhere(self, choose: Callable[[], bool] | None) -> None:
        """Arm every function, for events that ``choose`` accepts; None: disarm. For ``testing.preempt_everywhere``."""
        self.everywhere = choose
        monitoring.set_events(self.tool, self._kinds if choose else 0)

    def _on_event(self, code: CodeType, *_: object) -> None:
        """End the turn that the event was armed for. From: the function that computes. Raises: as raise_if_over."""
        me = self._end_turn(code, sys._getframe(1))
        if me is not None:
            preemption.raise_if_over(me)

    def _on_jump(self, code: CodeType, *_: object) -> None:
        """End the turn, as ``_on_event`` does. Before CPython 3.14 an error raised at a jump would skip ``finally``."""
        me = self._end_turn(code, sys._getframe(1))
        if me is None:
            return
        if JUMPS_MAY_RAISE:
            preemption.raise_if_over(me)
        elif preemption.is_over(me) and isinstance(me.pending_errors[0], KeyboardInterrupt):
            # The signal comes again, once the program's own code runs: see signals.py.
            me.pending_errors.pop(0)
            originals.interrupt_main()
        elif preemption.is_over(me) and not self.everywhere:
            preemption.overlong[me.scheduler] = me.scheduler.count_switches()
            self._arm_function(me.scheduler, code, self._kinds & ~monitoring.events.JUMP)

    def _end_turn(self, code: CodeType, frame: FrameType) -> Any:
        """End the caller's turn, if that is due. Returns: the caller; None if it is not due."""
        me = running_waiter()
        if me is None:
            return None
        if not (self.is_chosen(me.scheduler, code) if self.everywhere else self.is_for(me.scheduler, code)):
            return None
        if not preemption.may_end_turn(me, frame):
            return None
        # Until this returns the interpreter calls no tool in this OS thread: other dhagas must not run like that.
        state = self._thread_state()
        self._leave_tracing(state)
        try:
            preemption.end_turn(me, frame)
        finally:
            self._enter_tracing(state)
        return me

    def is_chosen(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether an event of ``arm_everywhere`` is to end the turn."""
        choose = self.everywhere
        return choose is not None and not is_of_dhaga(code.co_filename) and others_wait(scheduler) and choose()

    def is_for(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether an event is the one that a scheduler's overlong turn is to end at, and disarm it."""
        # Another OS thread may run the same function.
        if self._armed.get(scheduler) is not code:
            return False
        self.disarm(scheduler)
        return preemption.overlong.pop(scheduler, None) == scheduler.count_switches()


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
        or loop_has_events(scheduler)
    )


def loop_has_events(scheduler: Scheduler) -> bool:
    """Return whether the loop's selector would report an event, such as a call from another thread. In doubt True."""
    try:
        look = originals.poll()
        look.register(scheduler.selector.fileno())  # type: ignore[union-attr]
        return bool(look.poll(0))
    # No poll on this platform, a loop of the program, or one that was just closed.
    except (AttributeError, TypeError, ValueError, OSError):
        return True
