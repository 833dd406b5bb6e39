"""Trace and profile functions for each dhaga, for ``threading.settrace`` and ``threading.setprofile``.

CPython keeps one trace function and one profile function for each OS thread, and a switch of greenlets changes neither.
A tool that sets these functions with the standard ``threading`` expects that each function sees a single thread:
coverage's tracers, for example, keep a stack of calls. So once a Thread begins with such a function, each waiter of the
Thread's scheduler has its own functions. A park saves the waiter's functions and sets the hub's functions instead:
None, or the function of ``settrace_all_threads``.

If no Thread begins with such a function, a function that ``sys.settrace`` sets sees all dhagas of the OS thread.
Debuggers and coverage's ``concurrency = greenlet`` expect this.

A tool in C, such as cProfile before Python 3.12, sets a C function together with an object, and Python code gets only
the object. If this object is not callable, Python code cannot set the tool again. So the tool stays set for all dhagas.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ..wait.waiter import Waiter
from .scheduler_state import SchedulerState


class Everywhere:
    """The trace or profile function that was last set for all threads, and the number of times that such a function was
    set.
    """

    __slots__ = ("function", "times")

    def __init__(self) -> None:
        self.function: Any = None
        self.times = 0

    def set(self, function: Any) -> None:
        """Store a function that is set for all threads now, including those of parked dhagas."""
        self.function = function
        self.times += 1


traced, profiled = Everywhere(), Everywhere()


def begin_thread_functions(scheduler: SchedulerState) -> None:
    """Give each waiter of the scheduler its own functions, if a new Thread begins with a trace or profile function.

    From: the code that starts the Thread, in the scheduler's OS thread.
    """
    if threading.gettrace() is not None or threading.getprofile() is not None:
        scheduler.add_around_park(swap_functions)


def swap_functions(me: Waiter, switch_away: Callable[[], None]) -> None:
    """Switch away from a waiter with the hub's functions set, and then restore the waiter's functions.

    No Python function is called during the swap: a tracer must see each call together with its return.
    """
    trace, profile = sys.gettrace(), sys.getprofile()
    traces, profiles = traced.times, profiled.times
    # A tool in C, whose object is not callable, stays set.
    sets_profile = profile is None or callable(profile)
    sets_trace = trace is None or callable(trace)
    if sets_profile:
        sys.setprofile(profiled.function)
    if sets_trace:
        sys.settrace(traced.function)
    try:
        switch_away()
    finally:
        if sets_profile:
            sys.setprofile(profile if profiles == profiled.times else profiled.function)
        if sets_trace:
            sys.settrace(trace if traces == traced.times else traced.function)


def set_of_thread() -> bool:
    """Set the trace and profile functions with which a Thread begins. Returns: whether there is such a function."""
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None and not is_of_c(sys.gettrace()):
        sys.settrace(trace)
    if profile is not None and not is_of_c(sys.getprofile()):
        sys.setprofile(profile)
    return trace is not None or profile is not None


def drop_of_thread() -> None:
    """Set the hub's functions again at the end of a Thread."""
    if not is_of_c(sys.getprofile()):
        sys.setprofile(profiled.function)
    if not is_of_c(sys.gettrace()):
        sys.settrace(traced.function)


def is_of_c(function: Any) -> bool:
    """Return whether a tool in C has set the current function, which Python code cannot set again."""
    return function is not None and not callable(function)
