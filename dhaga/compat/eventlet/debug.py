"""``eventlet.debug``: eventlet's debugging functions. Most switches have no effect here."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from ... import threading
from ..._kernel.process.current_scheduler import current_scheduler
from . import _settings

__all__ = [
    "format_asyncio_info", "format_hub_listeners", "format_hub_timers", "format_threads_info", "hub_blocking_detection",
    "hub_exceptions", "hub_listener_stacks", "hub_prevent_multiple_readers", "hub_timer_stacks", "spew",
    "tpool_exceptions", "unspew",
]  # fmt: skip


def hub_exceptions(state: bool = True) -> None:
    """Set whether ``dhaga.excepthook`` reports an error of a greenthread if nothing waits for its result."""
    _settings.hub_exceptions = bool(state)


def tpool_exceptions(state: bool = False) -> None:
    """Set whether ``tpool.execute`` reports an error of its call before it raises the error."""
    _settings.tpool_exceptions = bool(state)


def format_hub_timers() -> str:
    """Return the pending deadlines as text."""
    timers = sorted(current_scheduler().timers.heap, key=lambda entry: entry[0])
    return "\n".join(["TIMERS:", *(f"{entry[0]}: {entry[2]!r}" for entry in timers if entry[2] is not None)])


def format_hub_listeners() -> str:
    """Return the greenthreads that wait to read or to write, as text."""
    waits = [each for each in current_scheduler().in_order() if each.reason]
    lines = {way: [repr(each) for each in waits if str(each.reason).startswith(way)] for way in ("read", "write")}
    return "\n".join(["READERS:", *lines["read"], "WRITERS:", *lines["write"]])


def format_asyncio_info() -> str:
    """Return the tasks of the thread's asyncio loop as text."""
    return "\n".join(["TASKS:", *map(repr, asyncio.all_tasks(current_scheduler().loop))])


def format_threads_info() -> str:
    """Return the threads as text."""
    return "\n".join(["THREADS:", *map(repr, threading.enumerate())])


def hub_listener_stacks(state: bool = False) -> None:
    """Do nothing, because ``python -m dhaga dump PID`` shows the stack of each wait."""


def hub_timer_stacks(state: bool = False) -> None:
    """Do nothing, because ``python -m dhaga dump PID`` shows the stack of each wait."""


def hub_prevent_multiple_readers(state: bool = True) -> None:
    """Do nothing, because several greenthreads may wait for one socket; they are served one after another."""


def hub_blocking_detection(state: bool = False, resolution: float = 1) -> None:
    """Do nothing, because ``DHAGA_DEBUG=1`` reports code that blocks the other greenthreads."""


def spew(trace_names: Any = None, show_values: bool = False) -> NoReturn:
    """Raise NotImplementedError, because lines cannot be traced."""
    raise NotImplementedError("lines are not traced here: see dhaga.debug.trace() for the turns of all microthreads")


def unspew() -> None:
    """Do nothing, because ``spew`` is never active."""
