"""OS threads in simulated tests: dhagas that are also switched between the lines of Dhaga's own code.

A dhaga keeps its OS thread until it parks, so a simulation interrupts no code of Dhaga. But an OS thread is switched
anywhere, and the code that OS threads share must bear that. Here, the files of this code count as files of the program.
Lines under an OS lock are left out, because another dhaga of the same OS thread would wait for that lock for ever.
"""

from __future__ import annotations

import gc
from asyncio import _get_running_loop
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import dhaga
from dhaga import futures, pool, queue  # noqa: F401  # their functions are found below
from dhaga._kernel.context_manager import contextmanager
from dhaga._kernel.run.call_outs import call_outs, is_switchable
from dhaga._kernel.run.preemption import uninterrupted
from dhaga._kernel.wait.cancellation import NoPark
from dhaga._kernel.wait.inner_waiter import InnerWaiter
from dhaga._sync.barrier import Barrier
from dhaga._sync.event import Event
from dhaga._sync.lock import Lock, RLock
from dhaga._sync.semaphore import Semaphore
from dhaga._workers.future import guard
from dhaga._workers.offload import pools
from dhaga.simulation import Mixed, Settings, Simulation
from dhaga.simulation._schedule.points import NewPoints, Program
from dhaga.simulation._standard.standard import replaced

PACKAGE = Path(dhaga.__file__).parent

SHARED = ("_sync", "_workers", "_kernel/wait/wait_queue.py", "futures.py", "pool.py", "queue.py")
"""Files and folders whose code OS threads share."""

NOT_SHARED = ("_sync/mutex.py", "_workers/switch_interval.py")
"""Exceptions: the mutex spins for some real time, and the switch interval has its own OS lock."""

PATCHED_REPRS = (Barrier, Event, Lock, RLock, Semaphore)
"""Classes whose reprs the patch replaces with the standard reprs. The tests expect the original reprs."""

MAX_EVENTS = 100_000


def files_of(names: tuple[str, ...]) -> set[str]:
    paths = [PACKAGE / name for name in names]
    return {str(file) for path in paths for file in ([path] if path.suffix else path.rglob("*.py"))}


SHARED_FILES = files_of(SHARED) - files_of(NOT_SHARED)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def interrupt_shared_code() -> None:
    """Allow turns to end in the functions of the shared files, except finalizers. From: before ``gc.freeze``."""
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in SHARED_FILES and each.__name__ != "__del__":
            call_outs.update(codes_in(each.__code__))


@contextmanager
def replaced_but_reprs() -> Iterator[None]:
    """Replace the standard library's functions as a search does, but keep the reprs of our classes."""
    reprs = {kind: kind.__repr__ for kind in PATCHED_REPRS}
    with replaced():
        for kind, function in reprs.items():
            kind.__repr__ = function
        yield


class ProgramWithSharedCode(Program):
    """The program's files, and the files of Dhaga whose code OS threads share."""

    def decide(self, file: str) -> bool:
        return file in SHARED_FILES or super().decide(file)


class ThreadPoints(NewPoints):
    """Points at which an OS thread could be switched, also between the two halves of a park or of an end."""

    def may_preempt(self, me: Any, frame: FrameType) -> bool:
        return (
            me not in uninterrupted
            and not getattr(me, "has_ended", False)
            and _get_running_loop() is None
            and not any(isinstance(cause, NoPark) for cause in me.pending_errors)
            and not holds_os_lock()
            and is_switchable(frame)
        )

    def preempt(self, me: Any, ready: Any, index: int, place: str) -> None:
        """Switch with a new waiter, because the dhaga may be parked already, or have the outcome of its call."""
        super().preempt(InnerWaiter(me), ready, index, place)
        self.run.waiter = me


def holds_os_lock() -> bool:
    """Return whether the OS lock of the futures or of a pool is held. From: the only OS thread that acquires them."""
    owned: bool = guard._is_owned()  # type: ignore[attr-defined]
    return owned or any(each.workers.guard.locked() for each in list(pools))


class ThreadSettings(Settings):
    """Settings of runs in which the dhagas are switched as OS threads are."""

    def simulation(self, seed: int, **more: Any) -> Simulation:
        simulation = super().simulation(seed, **more)
        simulation.points = ThreadPoints(simulation.run, self.preempt, ProgramWithSharedCode(), False)
        return simulation


# Without stalls: the tests compare the times of the virtual clock.
SETTINGS = ThreadSettings(Mixed(), max_events=MAX_EVENTS, stalls=0)
