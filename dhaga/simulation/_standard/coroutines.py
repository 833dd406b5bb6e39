"""The event loops of a simulated program. At the end of the simulation, coroutines that are still suspended are closed.

A task can outlive the run of its loop, because the failure of a simulation can interrupt the cleanup of
``asyncio.run``. If the task's coroutine stayed suspended, the garbage collector would find the task during a later
test, and asyncio would log the task.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..._kernel import hooks
from ..._kernel.errors import Cancelled
from ..._kernel.process.virtual_clock import MAX_CANCELS
from ...asyncio import SelectorEventLoop
from .._base.errors import Stopped
from .._base.undoing import Undoing
from .._schedule.tasks import TaskQueue

if TYPE_CHECKING:
    from .._schedule.run import Run


class ProgramLoops:
    """The event loops that the program of a simulation makes, in order of creation."""

    def __init__(self, run: Run | None = None) -> None:
        """``run``: the run whose strategy orders the tasks; None: asyncio orders them."""
        self.run = run
        self.made: list[weakref.ref[SelectorEventLoop]] = []

    def watch(self, undoing: Undoing) -> None:
        """Note each new loop until the end of the simulation."""
        undoing.set(hooks, "on_event_loop", self.note_loop)

    def note_loop(self, loop: SelectorEventLoop) -> None:
        """Note a new loop. From: ``hooks.on_event_loop``."""
        self.made.append(weakref.ref(loop))
        if self.run is not None:
            standard: Any = loop  # the queue is a private attribute of asyncio's loops, without a public setter
            standard._ready = TaskQueue(self.run, len(self.made))

    def close_coroutines(self) -> None:
        """Close the coroutines of all unfinished tasks. Parks: while their ``finally`` blocks park."""
        for loop in [each() for each in self.made]:
            # The loop of a killed host counts as running forever, and its coroutines must not run another line.
            if loop is not None and not loop.is_running():
                for task in asyncio.all_tasks(loop):
                    close(task)


def close(task: asyncio.Task[Any]) -> None:
    """Close the coroutine of a task. If a ``finally`` block awaits something, close the coroutine again."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine: Any = task.get_coro()
    for _ in range(MAX_CANCELS):
        with suppress(Exception, SystemExit, Cancelled, Stopped):
            coroutine.close()
            return
