"""The events of ``sys.monitoring`` that end overlong turns: the second layer of preemption (``run/preemption.py``).

The watcher *arms* events: it sets them on the program's innermost function in a scheduler's thread. The first event in
this function ends the turn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from .. import originals
from ..run import preemption
from ..run.call_outs import is_of_dhaga, is_switchable, program_frame
from ..run.in_flight import Flight, calls_dhaga
from ..run.run_modes import GuestMode
from ..run.scheduler import Scheduler
from ..wait.current import running_waiter

TOOL_NAME = "dhaga preemption"

TOOLS = (4, 3)
"""The tool ids that any program may use; 0 to 2 and 5 are for debuggers, coverage, profilers and optimizers."""

JUMPS_MAY_RAISE = sys.version_info >= (3, 14)

LOOP_QUEUES = ("_scheduled", "_ready")
"""The attributes in which asyncio's loop keeps its timers and its ready callbacks. The ready callbacks, which include
the callbacks of due timers, run only after the callback in which the scheduler runs its dhagas.
"""

monitoring: Any = getattr(sys, "monitoring", None)
"""The module ``sys.monitoring``; None before CPython 3.12."""


class Events:
    """The events of ``sys.monitoring`` on functions that compute, for all schedulers."""

    def __init__(self) -> None:
        kinds = monitoring.events
        self._kinds = kinds.JUMP | kinds.CALL | kinds.PY_START | kinds.PY_RETURN | kinds.PY_YIELD
        self._leave_tracing, self._enter_tracing, self._thread_state = tracing_functions()
        self._armed: dict[Scheduler, CodeType] = {}
        # The Flight (``run/in_flight.py``) of each scheduler whose dhaga has passed a deadline. The error is delayed,
        # because the dhaga may not have stored the result of its last call yet.
        self._flights: dict[Scheduler, Flight] = {}
        # A lock is needed, because two schedulers may run the same function. The lock is re-entrant, because the thread
        # that holds the lock may get an event.
        self.arming: Any = originals.RLock()
        self.everywhere: Callable[[], bool] | None = None
        # The id of the tool, acquired only for overlong turns, so that other tools find free ids. The id is None if no
        # turn was overlong lately, or no id was free.
        self.tool: int | None = None
        self._callbacks: dict[int, Callable[..., None]] = {
            kinds.CALL: self._on_event,
            kinds.PY_START: self._on_event,
            kinds.PY_RETURN: self._on_result,
            kinds.PY_YIELD: self._on_result,
            kinds.JUMP: self._on_jump,
            kinds.INSTRUCTION: self._on_instruction,
        }

    def take_tool(self) -> bool:
        """Acquire a tool id, unless this object has one. Returns: False if other tools own all ids of ``TOOLS``."""
        for tool in () if self.tool is not None else TOOLS:
            with suppress(ValueError):
                monitoring.use_tool_id(tool, TOOL_NAME)
                self.tool = tool
                for kind, callback in self._callbacks.items():
                    monitoring.register_callback(tool, kind, callback)
                break
        return self.tool is not None

    def free_tool(self) -> None:
        """Disarm all schedulers, and free the tool id if there is one."""
        for scheduler in [*self._armed, *self._flights]:
            self.disarm(scheduler)
        with self.arming:
            tool, self.tool = self.tool, None
            if tool is not None:
                # CPython 3.12 and 3.13 would keep the callbacks for the next owner of the id.
                for kind in self._callbacks:
                    monitoring.register_callback(tool, kind, None)
                monitoring.free_tool_id(tool)

    def free_tool_if_unused(self) -> None:
        """Free the tool id if nothing is armed."""
        if self.tool is not None and not self._armed and not self._flights and self.everywhere is None:
            self.free_tool()

    def arm(self, scheduler: Scheduler) -> None:
        """Arm the program's innermost function on a scheduler, if a turn may end in this function."""
        self.disarm(scheduler)
        if debugger_is_on():
            return
        frame = program_frame(sys._current_frames().get(scheduler.thread_ident))
        if frame is not None and is_switchable(frame, preemption.signal_handlers) and self.take_tool():
            with self.arming:
                self._armed[scheduler] = frame.f_code
                monitoring.set_local_events(self.tool, frame.f_code, self._kinds)

    def disarm(self, scheduler: Scheduler) -> None:
        if scheduler in self._flights:
            self._end_flight(scheduler)
        with self.arming:
            code = self._armed.pop(scheduler, None)
            if code is not None and self.tool is not None and code not in self._armed.values():
                monitoring.set_local_events(self.tool, code, 0)

    def arm_everywhere(self, choose: Callable[[], bool] | None) -> None:
        """Arm every function for events that ``choose`` accepts; None disarms. From: ``testing.preempt_everywhere``."""
        self.everywhere = choose
        self._set_events_everywhere()

    def _on_event(self, code: CodeType, offset: int, *called: object) -> None:
        """End the turn for which the event was armed. From: the function that computes. Raises: pending errors."""
        frame = sys._getframe(1)
        me = self._end_turn(code, frame)
        if self._flights and self._may_land(code, frame, called):
            preemption.strike(running_waiter(), frame)
        elif me is not None:
            self._begin_strike(me, frame)

    def _on_result(self, code: CodeType, *_: object) -> None:
        """End the turn as ``_on_event`` does, but raise no deadline's error, which would lose the function's result."""
        frame = sys._getframe(1)
        me = self._end_turn(code, frame)
        if me is not None:
            self._begin_strike(me, frame)

    def _on_jump(self, code: CodeType, offset: int, destination: int) -> None:
        """End the turn as ``_on_event`` does. Before CPython 3.14, raise the error at the next instruction instead,
        because an error raised at a jump would skip ``finally``.
        """
        frame = sys._getframe(1)
        me = self._end_turn(code, frame)
        if me is not None:
            self._begin_strike(me, frame, raises=JUMPS_MAY_RAISE)
        lands = bool(self._flights) and self._may_land(code, frame, (), destination)
        if JUMPS_MAY_RAISE:
            if lands:
                preemption.strike(running_waiter(), frame)
        elif lands or (me is not None and me.pending_errors):
            # The error is raised at the instruction to which the code jumps.
            self._set_events(code, monitoring.events.INSTRUCTION)

    def _on_instruction(self, code: CodeType, *_: object) -> None:
        """Disarm the event, and raise the error that ``_on_jump`` could not raise. If another OS thread gets the event
        first, this error stays pending.
        """
        self._set_events(code, 0)
        me = running_waiter()
        if me is not None:
            preemption.strike(me, sys._getframe(1), deadlines=me.scheduler not in self._flights)

    def _begin_strike(self, me: Any, frame: FrameType, raises: bool = True) -> None:
        """Raise a pending error that may be raised anywhere. For a deadline, start a Flight, which finds a place where
        the error loses no result.
        """
        if raises:
            preemption.strike(me, frame, deadlines=False)
        if me.pending_errors and preemption.may_deadlines_strike(me.scheduler):
            with self.arming:
                self._flights[me.scheduler] = Flight(me.scheduler.count_switches(), frame)
                self._set_events_everywhere()

    def _may_land(
        self, code: CodeType, frame: FrameType, called: tuple[Any, ...], destination: int | None = None
    ) -> bool:
        """Return whether a due deadline of the caller's dhaga may be raised at this event."""
        me = running_waiter()
        flight = None if me is None else self._flights.get(me.scheduler)
        if me is None or flight is None:
            return False
        if flight.turn != me.scheduler.count_switches() or not me.pending_errors:
            self._end_flight(me.scheduler)
        elif calls_dhaga(code.co_filename, called):
            flight.depart(frame)
        elif flight.has_landed(frame, destination):
            self._end_flight(me.scheduler)
            return True
        return False

    def _end_flight(self, scheduler: Scheduler) -> None:
        with self.arming:
            if self._flights.pop(scheduler, None) is not None:
                self._set_events_everywhere()

    def _set_events_everywhere(self) -> None:
        if self.tool is not None:
            monitoring.set_events(self.tool, self._kinds if self.everywhere or self._flights else 0)

    def _set_events(self, code: CodeType, kinds: int) -> None:
        """Set a function's events. Do nothing if the tool id was freed meanwhile."""
        with self.arming:
            if self.tool is not None:
                monitoring.set_local_events(self.tool, code, kinds)

    def _end_turn(self, code: CodeType, frame: FrameType) -> Any:
        """End the caller's turn if the turn must and may end here. Returns: the caller; None if the turn continues."""
        me = running_waiter()
        if me is None:
            return None
        if not (self.is_chosen(me.scheduler, code) if self.everywhere else self.is_for(me.scheduler, code)):
            return None
        if not preemption.may_end_turn(me, frame):
            return None
        # During this callback the interpreter calls no tool in this OS thread. But other dhagas run until the caller's
        # next turn, and tools such as coverage must see them.
        state = self._thread_state()
        self._leave_tracing(state)
        try:
            preemption.end_turn(me, frame)
        finally:
            self._enter_tracing(state)
        return me

    def is_chosen(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether the turn must end at this event of ``arm_everywhere``."""
        choose = self.everywhere
        return choose is not None and not is_of_dhaga(code.co_filename) and choose() and others_wait(scheduler)

    def is_for(self, scheduler: Scheduler, code: CodeType) -> bool:
        """Return whether a scheduler's overlong turn must end at this event. Disarm the event."""
        # Another OS thread may run the same function.
        if self._armed.get(scheduler) is not code:
            return False
        self.disarm(scheduler)
        return preemption.overlong.pop(scheduler, None) == scheduler.count_switches()


def tracing_functions() -> tuple[Any, Any, Any]:
    """Return CPython's functions that leave and enter tracing, and the function that returns the thread state."""
    import ctypes

    state = ctypes.pythonapi.PyThreadState_Get
    state.restype = ctypes.c_void_p
    leave, enter = ctypes.pythonapi.PyThreadState_LeaveTracing, ctypes.pythonapi.PyThreadState_EnterTracing
    leave.argtypes = enter.argtypes = [ctypes.c_void_p]
    leave.restype = enter.restype = None
    return leave, enter, state


def debugger_is_on() -> bool:
    """Return whether a debugger or a coverage tool uses events. In that case events do not end turns."""
    return any(monitoring.get_tool(tool) for tool in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID))


def others_wait(scheduler: Scheduler) -> bool:
    """Return whether other work could run on the scheduler's thread, or a waiter of the scheduler has a pending error.

    If the result is False, the turn may continue. From: any thread. In doubt, return True, because ending a turn
    needlessly costs only 0.1 ms.
    """
    return bool(
        scheduler.count_runnable()
        or getattr(scheduler.main_waiter, "pending_errors", None)
        or len(scheduler.live) > 1
        or any(each.pending_errors for each in list(scheduler.live))
        or len(scheduler.timers)
        or scheduler.poller.watchers
        or scheduler.outside_calls
        or isinstance(scheduler.mode, GuestMode)
        or loop_has_events(scheduler)
    )


def loop_has_events(scheduler: Scheduler) -> bool:
    """Return whether the loop has timers or callbacks, or the loop's selector would report an event (for example,
    because another thread has scheduled a call). In doubt, return True.
    """
    if any(getattr(scheduler.loop, name, True) for name in LOOP_QUEUES):
        return True
    try:
        look = originals.poll()
        look.register(scheduler.selector.fileno())  # type: ignore[union-attr]
        return bool(look.poll(0))
    # The platform has no poll, or the loop belongs to the program or was just closed.
    except (AttributeError, TypeError, ValueError, OSError):
        return True
