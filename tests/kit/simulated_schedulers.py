"""Schedulers with their own OS threads, in simulated tests: their dhagas run in the scheduler of the simulation.

A ThreadScheduler has its own members and its own end. It uses the simulation's run queue, timers and loop, so that the
seed decides which of the "threads" runs next.
"""

from __future__ import annotations

from typing import Any

import dhaga
from dhaga import pool
from dhaga._kernel import originals
from dhaga._kernel.run.microthread import Dhaga
from dhaga._kernel.run.run_modes import OwnThreadMode, RunMode
from dhaga._kernel.run.scheduler import Scheduler
from dhaga._kernel.run.scheduler_state import SchedulerState, next_number
from dhaga._kernel.wait.current import scheduler_of_caller, this_thread
from dhaga._kernel.wait.wait_queue import WaitQueue

OWN = {
    "__weakref__", "_end_reason", "_last_old_ident", "around_park", "asleep", "closing", "live", "mode", "name",
    "quantum", "thread_ident",
}  # fmt: skip
"""The attributes that a ThreadScheduler does not share with the simulation."""


class ThreadScheduler(Scheduler):
    """A scheduler whose OS thread is simulated."""

    __slots__ = ("simulated",)

    def __init__(self, name: str | None = None, *, loop: Any = None, preempt: float | None = None) -> None:
        assert loop is None, "a loop of its own is not simulated"
        self.simulated: Scheduler = this_thread.main.scheduler
        self.name = name or f"scheduler-{next_number()}"
        self.quantum = preempt
        self.around_park = None
        self._init_membership()
        self.live = Members(self)
        self.mode = RunMode(self)

    @property
    def has_thread(self) -> bool:
        return isinstance(self.mode, ThreadMode) and not self.mode.ended

    @property
    def thread_ident(self) -> int:
        """The ident of the simulated thread: the caller's ident if the caller runs there; 0 without a thread."""
        if not self.has_thread:
            return 0
        return originals.get_ident() if scheduler_of_caller() is self else id(self)

    @property
    def asleep(self) -> bool:
        """Whether the simulated thread has nothing to run."""
        if not self.has_thread or self.simulated.asleep:
            return True
        runnable = [scheduler_of_caller(), *(waiter.scheduler for waiter in self.run_queue.waiters())]  # type: ignore[attr-defined]
        return self not in runnable

    def wake_loop(self) -> None:
        if self.simulated.asleep:
            self.simulated.wake_loop()

    def call(self, fn: Any, *args: Any) -> bool:
        """Call a function in the simulated thread, on the hub or in the caller. Returns: False without a thread."""
        if not self.has_thread:
            return False
        if scheduler_of_caller() is self:
            fn(*args)
        else:
            self.loop.call_soon(fn, *args)
        return True

    def start(self) -> Any:
        if self.has_thread or self.closing:
            raise RuntimeError(f"{self!r} was started before: a scheduler starts once")
        self.mode = ThreadMode(self)
        return self


def shared(name: str) -> property:
    """Return a property that reads and sets the simulation's attribute of this name."""

    def get(scheduler: ThreadScheduler) -> Any:
        return getattr(scheduler.simulated, name)

    def set_(scheduler: ThreadScheduler, value: Any) -> None:
        setattr(scheduler.simulated, name, value)

    return property(get, set_)


for name in set(SchedulerState.__slots__) - OWN:
    setattr(ThreadScheduler, name, shared(name))


class Members(set[Dhaga[Any]]):
    """The live dhagas of a ThreadScheduler. A closing ThreadScheduler ends with the last of them."""

    def __init__(self, scheduler: ThreadScheduler) -> None:
        super().__init__()
        self.scheduler = scheduler

    def discard(self, dhaga: Dhaga[Any]) -> None:
        super().discard(dhaga)
        if self.scheduler.closing and not self:
            self.scheduler.loop.call_soon(self.scheduler.mode.end)  # type: ignore[attr-defined]


class ThreadMode(OwnThreadMode):
    """The run mode of a ThreadScheduler, which has no OS thread to end."""

    def __init__(self, scheduler: ThreadScheduler) -> None:
        RunMode.__init__(self, scheduler)
        self.ended = False
        self.thread = SimulatedThread(self)
        self.stop_waiters = WaitQueue(scheduler, f"stop {scheduler.name}")

    def cancel_and_end_lap(self) -> None:
        self.scheduler._cancel_for_end(f"{self.scheduler.name} stops")
        self.end()

    def end(self) -> None:
        """End the thread if no dhaga is left. From: the hub."""
        if not self.ended and self.is_over():
            self.ended = True
            self.scheduler._reject_not_started()
            self.stop_waiters.wake_all()


class SimulatedThread:
    """The thread object of a ThreadScheduler."""

    def __init__(self, mode: ThreadMode) -> None:
        self.mode = mode

    def is_alive(self) -> bool:
        return not self.mode.ended

    def join(self, timeout: float | None = None) -> None:
        if not self.mode.ended:
            self.mode.stop_waiters.wait(True, self.mode.wake_stop_waiters, timeout)


def simulate_schedulers() -> None:
    """Simulate the threads of all schedulers from now on, also in pools. From: a process for one test."""
    dhaga.Scheduler = pool.Scheduler = ThreadScheduler
