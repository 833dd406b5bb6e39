"""Closes the coroutines that are still suspended at the end of a simulation.

A task can outlive the run of its loop: the failure of a simulation interrupts ``asyncio.run`` also while it cleans up.
Otherwise the garbage collector would find these tasks in the middle of a later test, and asyncio would log each one.
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
    """The event loops that the program of a simulation makes, in this order."""

    def __init__(self, run: Run | None = None) -> None:
        """``run``: the one whose strategy orders the tasks; None: asyncio does."""
        self.run = run
        self.made: list[weakref.ref[SelectorEventLoop]] = []

    def watch(self, undoing: Undoing) -> None:
        """Note each loop that is made until the end."""
        undoing.set(hooks, "on_event_loop", self.note_loop)

    def note_loop(self, loop: SelectorEventLoop) -> None:
        """Note a new loop. From: ``hooks.on_event_loop``."""
        self.made.append(weakref.ref(loop))
        if self.run is not None:
            standard: Any = loop  # asyncio's own attribute, which no call replaces
            standard._ready = TaskQueue(self.run, len(self.made))

    def close_coroutines(self) -> None:
        """Close the coroutines of all unfinished tasks. Parks: while their ``finally`` blocks do."""
        for loop in [each() for each in self.made]:
            # The loop of a killed host still runs: none of its lines may run any more.
            if loop is not None and not loop.is_running():
                for task in asyncio.all_tasks(loop):
                    close(task)


def close(task: asyncio.Task[Any]) -> None:
    """Close the coroutine of a task, again if it awaits something in a ``finally`` block."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine: Any = task.get_coro()
    for _ in range(MAX_CANCELS):
        with suppress(Exception, SystemExit, Cancelled, Stopped):
            coroutine.close()
            return
