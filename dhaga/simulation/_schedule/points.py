"""Points: the places between two lines or instructions of the program, at which a simulation can switch threads.

From CPython 3.12 on, points are events of ``sys.monitoring``. On CPython 3.11 a trace function reports them. The events
of a function are turned on when the function starts. Code of Dhaga has no points. Code of the standard library and of
site-packages has points only if ``modules`` contains its package.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from ..._kernel.process.preemption_events import monitoring, tracing_functions
from ..._kernel.run.call_outs import is_of_dhaga
from ..._kernel.run.preemption import may_pause
from ..._kernel.wait.current import running_waiter
from .members import Member
from .run import Run
from .simulated_queue import SimulatedQueue
from .source_line import SourceLine
from .strategies import LONGEST_STRETCH

TOOL_NAME = "dhaga simulation"

KINDS = ("lines", "instructions")

LINES_KEPT = 100_000
"""The number of most recent lines that a run keeps for reports."""


@cache
def library_folders() -> list[str]:
    """Return the folders of the standard library and of installed packages. The first call takes 10 ms."""
    paths = sysconfig.get_paths()
    found = [paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return sorted({f"{os.path.realpath(path)}{os.sep}" for path in found} | {f"{path}{os.sep}" for path in found})


class Program:
    """The source files of the program. ``modules``: installed packages that count as parts of the program."""

    def __init__(self, modules: Iterable[str] = ()) -> None:
        self.libraries = library_folders()
        self.named = tuple(modules)
        self.known: dict[str, bool] = {}

    def has(self, file: str) -> bool:
        found = self.known.get(file)
        if found is None:
            found = self.known[file] = self.decide(file)
        return found

    def decide(self, file: str) -> bool:
        if is_of_dhaga(file) or os.path.basename(file) == "_dhaga_pytest.py":
            return False
        for folder in self.libraries:
            if file.startswith(folder):
                first = file.removeprefix(folder).removeprefix(f"site-packages{os.sep}").split(os.sep)[0]
                return first.removesuffix(".py") in self.named
        # Generated code, for example of named tuples, has file names such as <string>, and is not the program's.
        return not file.startswith("<") or file.startswith(("<doctest", "<ipython", "<stdin"))


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


class Points:
    """The points of a run. Each point is counted. At the end of the chooser's countdown, the chooser decides."""

    def __init__(self, run: Run, kind: str, program: Program, keep_lines: bool) -> None:
        self.run = run
        self.instructions = kind == "instructions"
        self.program = program
        self.lines: deque[tuple[Member, str, int]] | None = deque(maxlen=LINES_KEPT) if keep_lines else None
        run.lines = self.lines
        self.leave_tracing, self.enter_tracing, self.thread_state = tracing_functions()

    def reached(self, frame: FrameType, line: int, new_line: bool) -> None:
        """Switch to another member if the chooser decides so. From: a point at which ``count`` returned True.

        ``new_line``: as for ``count``.
        """
        run = self.run
        if run.over or run.failure is not None:
            return
        place = SourceLine(frame.f_code.co_filename, line)
        if run.stretch() >= run.max_events:
            run.fail_spinning(place.where)
        me = running_waiter()
        if me is None or me is not run.waiter:
            return
        queue = me.wake_queue
        if not isinstance(queue, SimulatedQueue):
            return
        if run.strikes and self.may_preempt(me, frame):
            self.strike(me, place)
        if run.chooser.points_left > 0:
            return
        ready = queue.members()
        choices = run.choices(ready)
        index = run.chooser.at_point(run.running, choices)
        if index is None:
            if not ready and run.stretch() >= LONGEST_STRETCH and may_pause(me, frame):
                self.pause(run.wait_for_deadline, me)
            return
        if not self.may_preempt(me, frame):
            run.chooser.ask_again()
            return
        # This line has not begun to run. So it is removed here. It is appended again when it runs, after the lines of
        # the members that now run first.
        if self.lines and new_line and not self.instructions:
            self.lines.pop()
        run.point = place
        if choices[index] is run.members.clock:
            self.pause(run.stall, me, place)
        else:
            self.pause(self.preempt, me, ready, index, place)
        if self.lines is not None:
            self.lines.append((run.shown(), *place))

    def strike(self, me: Any, place: SourceLine) -> None:
        """Begin the pause of the caller's host, if a pause is due."""
        switches = len(self.lines) if self.lines is not None else 0
        self.pause(self.run.strike, me, place)
        if self.lines is not None and len(self.lines) > switches:
            self.lines.append((self.run.shown(), *place))

    def may_preempt(self, me: Any, frame: FrameType) -> bool:
        """Return whether the caller, whose code is at ``frame``, may be preempted there."""
        return may_pause(me, frame)

    def preempt(self, me: Any, ready: list[Member], index: int, place: SourceLine) -> None:
        """Switch from the caller to another member."""
        self.run.preempt(me, ready, index, place)

    def pause(self, call: Callable[..., object], *arguments: Any) -> None:
        # In the callback of a point, the interpreter traces nothing in this OS thread. But other dhagas must be traced.
        state = self.thread_state()
        self.leave_tracing(state)
        try:
            call(*arguments)
        finally:
            self.enter_tracing(state)

    def count(self, code: CodeType, line: int, new_line: bool) -> bool:
        """Count a point. ``new_line``: whether a line of the source begins here.

        Returns: whether the chooser must decide or a pause may begin at this point.
        """
        run = self.run
        run.running.points += 1
        run.chooser.points_left -= 1
        if new_line and self.lines is not None:
            self.lines.append((run.shown(), code.co_filename, line))
        return run.chooser.points_left <= 0 or bool(run.strikes)


class MonitoredPoints(Points):
    """The points that ``sys.monitoring`` reports."""

    tool = -1

    def begin(self, frame: FrameType | None) -> None:
        """Turn on the events of the program's functions: at once for those on the stack, for others when they start.

        Raises: RuntimeError if no tool id of ``sys.monitoring`` is free.
        """
        events = monitoring.events
        self.armed: set[CodeType] = set()
        self.loops: dict[tuple[CodeType, int], int] = {}
        self.tool = free_tool()
        monitoring.use_tool_id(self.tool, TOOL_NAME)
        self.kinds = events.LINE | (events.INSTRUCTION if self.instructions else events.JUMP)
        monitoring.register_callback(self.tool, events.PY_START, self.on_start)
        monitoring.register_callback(self.tool, events.LINE, self.on_line)
        monitoring.register_callback(self.tool, events.JUMP, self.on_jump)
        monitoring.register_callback(self.tool, events.INSTRUCTION, self.on_instruction)
        monitoring.restart_events()
        monitoring.set_events(self.tool, events.PY_START)
        for each in frames_from(frame):
            self.on_start(each.f_code)

    def end(self) -> None:
        monitoring.set_events(self.tool, 0)
        for code in self.armed:
            monitoring.set_local_events(self.tool, code, 0)
        events = monitoring.events
        for kind in (events.PY_START, events.LINE, events.JUMP, events.INSTRUCTION):
            monitoring.register_callback(self.tool, kind, None)
        monitoring.free_tool_id(self.tool)

    def on_start(self, code: CodeType, _: int = 0) -> Any:
        if code not in self.armed and self.program.has(code.co_filename):
            self.armed.add(code)
            monitoring.set_local_events(self.tool, code, self.kinds)
        return monitoring.DISABLE

    def on_line(self, code: CodeType, line: int) -> None:
        if self.instructions:
            if self.lines is not None:
                self.lines.append((self.run.shown(), code.co_filename, line))
        elif self.count(code, line, True):
            self.reached(sys._getframe(1), line, True)

    def on_jump(self, code: CodeType, place: int, to: int) -> Any:
        """Count each turn of a loop within one line. Such a loop may poll, although no turn of it begins a new line."""
        line = self.loops.get((code, place))
        if line is None:
            line = line_of(code, place)
            if to > place or line != line_of(code, to):
                return monitoring.DISABLE
            self.loops[code, place] = line
        if self.count(code, line, False):
            self.reached(sys._getframe(1), line, False)
        return None

    def on_instruction(self, code: CodeType, _: int) -> None:
        if self.count(code, 0, False):
            frame = sys._getframe(1)
            self.reached(frame, frame.f_lineno, False)


def line_of(code: CodeType, place: int) -> int:
    """Return the line number of the instruction at an offset."""
    return next((line or 0 for start, end, line in code.co_lines() if start <= place < end), 0)


def free_tool() -> int:
    """Return a free tool id of ``sys.monitoring``. Raises: RuntimeError."""
    for tool in (3, 4):
        if monitoring.get_tool(tool) is None:
            return tool
    raise RuntimeError("preemption in a simulation needs a free tool id of sys.monitoring, 3 or 4")


class TracedPoints(Points):
    """The points that a trace function reports, on CPython 3.11."""

    def begin(self, frame: FrameType | None) -> None:
        """Trace the program's functions. Raises: RuntimeError if a debugger or another tool traces."""
        if sys.gettrace() is not None:
            raise RuntimeError("preemption in a simulation on Python 3.11 needs sys.settrace, which another tool uses")
        sys.settrace(self.on_call)
        for each in frames_from(frame):
            if self.program.has(each.f_code.co_filename):
                self.trace(each)

    def end(self) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType) -> None:
        frame.f_trace = self.on_event
        frame.f_trace_opcodes = self.instructions

    def on_call(self, frame: FrameType, _: str, __: Any) -> Any:
        if not self.program.has(frame.f_code.co_filename):
            return None
        self.trace(frame)
        return self.on_event

    def on_event(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "line" and self.instructions:
            if self.lines is not None:
                self.lines.append((self.run.shown(), frame.f_code.co_filename, frame.f_lineno))
        elif event in ("line", "opcode") and self.count(frame.f_code, frame.f_lineno, event == "line"):
            self.reached(frame, frame.f_lineno, event == "line")
        return self.on_event


NewPoints: Any = TracedPoints if monitoring is None else MonitoredPoints
