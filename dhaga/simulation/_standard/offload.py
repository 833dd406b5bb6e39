"""Offloaded calls in a simulation. After a drawn duration, a call runs in its caller or in another dhaga."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..._kernel.wait.waiter import Waiter
from ..._workers.offload import OffloadPool, SharedPool
from ..._workers.worker_threads import WorkerThread
from .._base.pause import pause

if TYPE_CHECKING:
    from .._schedule.run import Run

OFFLOAD_SECONDS = 0.01
"""The longest duration, in seconds, that is drawn for an offloaded call."""


class NoGate:
    """The gate of a simulated thread. An idle real thread waits at its gate; an idle simulated thread ends."""

    def acquire(self, timeout: float = -1) -> bool:
        return False

    def release(self) -> None:
        """Do nothing, because no thread waits at this gate."""


class SimulatedThread(WorkerThread):
    """A dhaga that replaces a thread of a pool. The pool keeps its limit of concurrent calls, and its backlog.

    Callers of a shared pool make their calls themselves, because its threads would mix the calls of several hosts.
    """

    run_of: Run
    draw: random.Random

    def __init__(self, pool: OffloadPool) -> None:
        super().__init__(pool)
        self.gate: Any = NoGate()
        self.dhaga: Any = None

    @classmethod
    def calls_inline(cls, pool: OffloadPool, me: Waiter) -> bool:
        """Return whether the caller makes the call itself. If the pool is shared, first wait for a drawn duration."""
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
        """Do nothing, because the signal mask of the OS thread belongs to the program."""

    def leave(self) -> None:
        """Leave the pool. From: the end of this thread, or the kill of its host."""
        if self in self.run_of.threads:
            self.run_of.threads.remove(self)
            del self.run_of.pool_of[self.dhaga]
            super().leave()


def threads_of(run: Run, draw: random.Random) -> Callable[[Waiter], Any]:
    """Return the function that replaces ``outside.pool_thread`` during a run."""
    kind = type("SimulatedThread", (SimulatedThread,), {"run_of": run, "draw": draw})

    def class_for(me: Waiter) -> Any:
        loop = getattr(getattr(me, "scheduler", None), "loop", None)
        return kind if loop is run.scheduler.loop and not run.over else None

    return class_for
