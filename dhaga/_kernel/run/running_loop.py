"""Support for event loops that a program runs in a dhaga or in main code: only that code sees its loop as running.

asyncio keeps one running loop per OS thread. A scheduler sets it to None while dhagas and main code run
(``scheduler.py``). A waiter that runs a loop of the program has a ``LoopRun``. While the waiter runs, this loop is the
running loop, and the asyncgen hooks are the loop's. While the waiter is parked, there is no running loop, and the hooks
are those from outside the loop: ``around_park`` changes both.
A run begins in ``beside_scheduler``. But main code outside the main OS thread may still have no scheduler when its loop
begins to run. Then the run begins when code in the loop first needs a scheduler (``begin_late_loop_run``).
Not here: the loops themselves (``dhaga/asyncio.py``).
"""

from __future__ import annotations

import asyncio as standard
import sys
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import hooks
from ..context_manager import contextmanager
from ..wait.current import parking_waiter, this_thread
from .main_code import Main

if TYPE_CHECKING:
    from .scheduler import Scheduler

TASK_IS_OF_THREAD = sys.version_info >= (3, 14)
"""Whether Python keeps one current task for each OS thread. Older versions keep one current task for each loop."""

swap_task: Callable[[Any, Any], Any] = getattr(standard.tasks, "_swap_current_task", None)  # type: ignore[assignment]


class LoopRun:
    """One run of a program's loop by a waiter. ``hooks``: the asyncgen hooks that apply outside the loop."""

    def __init__(self) -> None:
        self.hooks: tuple[Any, ...] = sys.get_asyncgen_hooks()


loop_runs: dict[Scheduler, dict[Any, LoopRun]] = {}
"""The runs of loops on each scheduler, by waiter. Only the scheduler's OS thread uses the scheduler's entry."""


def around_park(me: Any, switch_away: Callable[[], None]) -> None:
    """Switch away from a waiter. If the waiter runs a loop, hide the loop and the loop's asyncgen hooks meanwhile.

    This function is registered with ``Scheduler.add_around_park`` while a waiter of the scheduler runs a loop.
    """
    loop_run = loop_runs[me.scheduler].get(me)
    if loop_run is None:
        switch_away()
        return
    loop, hooks = _get_running_loop(), sys.get_asyncgen_hooks()
    task = None if loop is None or not TASK_IS_OF_THREAD else swap_task(loop, None)
    _set_running_loop(None)
    sys.set_asyncgen_hooks(*loop_run.hooks)
    try:
        switch_away()
    finally:
        loop_run.hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(*hooks)
        _set_running_loop(loop)
        if task is not None:
            swap_task(loop, task)


def runs_loop(me: Any) -> bool:
    """Return whether a waiter runs a loop of the program."""
    return me in loop_runs.get(me.scheduler, ())


def begin_loop_run(me: Any) -> None:
    """Mark ``me`` as running a loop of its own, which other waiters do not see."""
    scheduler = me.scheduler
    loop_runs.setdefault(scheduler, {})[me] = LoopRun()
    scheduler.add_around_park(around_park)


def end_loop_run(me: Any) -> None:
    """Mark ``me`` as no longer running a loop of its own. No-op in a forked child that got a new scheduler."""
    scheduler = me.scheduler
    if not runs_loop(me):
        return
    sys.set_asyncgen_hooks(*loop_runs[scheduler].pop(me).hooks)
    if not loop_runs[scheduler]:
        scheduler.remove_around_park(around_park)
        del loop_runs[scheduler]


@contextmanager
def beside_scheduler() -> Iterator[None]:
    """Mark the caller as running a loop of its own in the block, so that the caller may park in that loop."""
    if _get_running_loop() is not None:
        yield  # a nested run, which the standard code refuses
        return
    me = parking_waiter()
    if me is None:
        try:
            yield
        finally:
            end_late_loop_run()
    elif runs_loop(me):
        yield
    else:
        begin_loop_run(me)
        try:
            yield
        finally:
            end_loop_run(me)


def begin_late_loop_run(main: Main) -> None:
    """Begin the LoopRun of main code that gets its scheduler only while its loop already runs. From:
    ``hooks.on_main_code``.
    """
    if getattr(_get_running_loop(), "parks", False):
        begin_loop_run(main)
        # The current hooks belong to the loop. Outside the loop there were no hooks.
        loop_runs[main.scheduler][main].hooks = (None, None)


hooks.on_main_code = begin_late_loop_run


def end_late_loop_run() -> None:
    """End the run that ``begin_late_loop_run`` began, if any."""
    if this_thread.main is not None and runs_loop(this_thread.main):
        end_loop_run(this_thread.main)
