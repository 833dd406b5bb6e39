"""The trace and profile functions of threads, for ``threading.settrace`` and ``threading.setprofile``.

CPython keeps one trace function and one profile function for each OS thread, and a switch of greenlets changes neither.
A tool that sets these functions with the standard ``threading`` takes them for those of one thread: coverage's tracers
keep a stack of calls each. So once a Thread begins with such a function, each waiter of its scheduler has functions of
its own: a park puts them away and sets those of the hub: None, or the function of ``settrace_all_threads``.

Without a Thread that begins so, a function of ``sys.settrace`` sees all dhagas of its OS thread, as debuggers and
coverage's ``concurrency = greenlet`` expect.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from ..wait.waiter import Waiter
from .scheduler_state import SchedulerState


class Everywhere:
    """One of the functions that every thread got last, and how often that has happened."""

    __slots__ = ("function", "times")

    def __init__(self) -> None:
        self.function: Any = None
        self.times = 0

    def set(self, function: Any) -> None:
        """Note a function that all threads get now, parked ones included."""
        self.function = function
        self.times += 1


traced, profiled = Everywhere(), Everywhere()


def begin_thread_functions(scheduler: SchedulerState) -> None:
    """Give each waiter of the scheduler its own functions, if the next Thread is to begin with one.

    From: the thread that starts it, in the scheduler's OS thread.
    """
    if threading.gettrace() is not None or threading.getprofile() is not None:
        scheduler.add_around_park(swap_functions)


def swap_functions(me: Waiter, switch_away: Callable[[], None]) -> None:
    """Switch away from a waiter without its functions; all others begin and go on with their own.

    It calls no Python function meanwhile: a tracer keeps a stack, and must see each call together with its return.
    """
    trace, profile = sys.gettrace(), sys.getprofile()
    traces, profiles = traced.times, profiled.times
    sys.setprofile(profiled.function)
    sys.settrace(traced.function)
    try:
        switch_away()
    finally:
        sys.setprofile(profile if profiles == profiled.times else profiled.function)
        sys.settrace(trace if traces == traced.times else traced.function)


def set_of_thread() -> bool:
    """Set the functions that a Thread begins with. Returns: whether it has any."""
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    return trace is not None or profile is not None


def drop_of_thread() -> None:
    """Put the functions of a Thread away at its end."""
    sys.setprofile(profiled.function)
    sys.settrace(traced.function)
