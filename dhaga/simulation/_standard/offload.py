"""Offloaded calls: after a drawn duration, in the caller or in a dhaga that stands for a thread of the pool."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._kernel.wait.waiter import Waiter
from ..._workers.offload import OffloadPool, SharedPool
from ..._workers.offloaded_call import WorkerThread
from .._base.pause import pause

if TYPE_CHECKING:
    from .._schedule.run import Run

OFFLOAD_SECONDS = 0.01
"""The longest duration that is drawn for an offloaded call."""


class NoGate:
    """The gate of a thread that is never idle: it ends instead."""

    def acquire(self, timeout: float = -1) -> bool:
        return False

    def release(self) -> None:
        """Do nothing: there are no waiters."""


class SimulatedThread(WorkerThread):
    """A dhaga that stands for a thread of a pool, so that the pool has its number of calls at once, and its backlog.

    Calls of the shared pool are made by their callers: it would mix the calls of several hosts.
    """

    run_of: Run
    draw: random.Random

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(pool)
        self.gate: Any = NoGate()
        self.dhaga: Any = None

    @classmethod
    def calls_inline(cls, pool: OffloadPool, me: Waiter) -> bool:
        """Return whether the caller makes the call itself, after a drawn duration unless it is a thread of the pool."""
        if cls.run_of.pool_of.get(me) is pool:
            return True
        if isinstance(pool, SharedPool):
            cls.wait(me, "offload")
            return True
        return False

    @classmethod
    def wait(cls, me: Waiter, reason: str) -> None:
        pause(cls.run_of.scheduler, me, cls.draw.uniform(0, OFFLOAD_SECONDS), reason)

    def start(self) -> None:
        self.dhaga = self.run_of.scheduler.spawn(self.run, name=self.pool.name)
        self.run_of.pool_of[self.dhaga] = self.pool
        self.run_of.threads.append(self)

    def run(self) -> None:
        try:
            self.wait(self.dhaga, f"a call of {self.pool.name}")
            while self.run_next_call():
                self.wait(self.dhaga, f"a call of {self.pool.name}")
        finally:
            self.leave()

    def take_mask(self, mask: frozenset[int]) -> None:
        """Do nothing: the mask of the OS thread is the program's."""

    def leave(self) -> None:
        """Leave the pool, at the end or as its host is killed."""
        if self in self.run_of.threads:
            self.run_of.threads.remove(self)
            del self.run_of.pool_of[self.dhaga]
            super().leave()


def threads_of(run: Run, draw: random.Random) -> Callable[[Waiter], Any]:
    """Return the door ``outside.pool_thread`` for a run."""
    kind = type("SimulatedThread", (SimulatedThread,), {"run_of": run, "draw": draw})

    def class_for(me: Waiter) -> Any:
        loop = getattr(getattr(me, "scheduler", None), "loop", None)
        return kind if loop is run.scheduler.loop and not run.over else None

    return class_for
