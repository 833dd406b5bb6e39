"""A scheduler for tests and simulations. Its clock jumps to the next deadline as soon as every dhaga waits.

The selector makes the jump when the loop wants to sleep until the next deadline. The caller may choose the order of the
run queue (``run/chosen_queue.py``).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import originals
from ..errors import Cancelled
from ..run.attachment import schedulers
from ..run.loop import HubSelector
from ..run.run_modes import ImplicitMode
from ..run.run_queues import LowQueue
from ..run.scheduler import Scheduler
from ..wait.current import this_thread
from ..wait.deadlock import DeadlockWatch
from .process_exit import ended_schedulers

MAX_CANCELS = 5
"""The maximum number of times that ``abandon`` cancels each dhaga."""

ROUNDING = 1e-6
"""The number of seconds below which a difference between deadlines is a rounding error."""


class VirtualClock:
    """The clock of ``virtual_clock()``: its time, in seconds, starts at 0 and advances only while every dhaga waits.
    ``clock()`` returns the time.

    A program may set ``now`` to a later time. The next run of the loop then wakes the sleepers that are due.
    """

    def __init__(self) -> None:
        self.now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now:g} s>"


class ClockSince(VirtualClock):
    """A view of another virtual clock. The view begins at 0 when it is made."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.began_at = clock.now

    @property
    def now(self) -> float:
        return round(self.clock.now - self.began_at, 9)

    @now.setter
    def now(self, seconds: float) -> None:
        self.clock.now = self.began_at + seconds

    def __call__(self) -> float:
        return self.now


class JumpingSelector(HubSelector):
    """A selector that moves the virtual clock to the next deadline instead of waiting for it.

    While a call is under way in another OS thread, the clock stops and the selector waits in real time.
    ``is_shared``: whether ``virtual_clock()`` in the scheduler's main code yields this clock instead of a new clock.
    """

    is_shared = False

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.clock = clock
        self.scheduler: Scheduler | None = None

    def select(self, timeout: float | None = None) -> Any:
        if not timeout or self.idle_callbacks:
            return super().select(timeout)
        events = super().select(0)
        if events:
            return events
        if self.awaits_outside():
            return super().select(None)
        self.jump(timeout)
        return []

    def awaits_outside(self) -> bool:
        """Return whether a call is under way that may end before the next deadline."""
        assert self.scheduler is not None
        return self.scheduler.outside_calls > 0

    def jump(self, seconds: float) -> None:
        """Advance the clock. If the result differs from a timer's deadline only by rounding, use the deadline."""
        assert self.scheduler is not None
        there = self.clock.now + seconds
        deadline = self.scheduler.timers.next_deadline()
        if deadline is not None and abs(deadline - there) < ROUNDING:
            there = max(deadline, self.clock.now)
        self.clock.now = there


def new_virtual_scheduler(
    selector: JumpingSelector,
    new_queue: Callable[[], deque[Any]] | None = None,
    new_starts: bool = True,
    new_low: Callable[[Scheduler], LowQueue] = LowQueue,
) -> Scheduler:
    """Return a new scheduler for the main code of this thread. The scheduler uses the selector's clock.

    ``new_queue`` makes the run queue. If ``new_starts`` is true, ``new_queue`` also makes the queues of dhagas that
    have not started. ``new_low`` makes the queue of LOW dhagas.
    """
    loop = originals.SelectorEventLoop(selector)
    loop.time = selector.clock  # type: ignore[method-assign]
    scheduler = Scheduler("virtual", loop=loop)
    scheduler.clock = selector.clock
    scheduler.selector = selector
    selector.scheduler = scheduler
    selector.watch = DeadlockWatch(scheduler, schedulers)
    if new_queue is not None:
        scheduler.run_queue = new_queue()
        for starter in scheduler.new_queues if new_starts else ():
            starter.not_started = new_queue()
    scheduler._low = new_low(scheduler)
    ImplicitMode(scheduler)
    return scheduler


def set_main_aside() -> Callable[[], None]:
    """Remove the main code of this OS thread, for ``new_virtual_scheduler``. Returns: a function that restores the main
    code.
    """
    outer, this_thread.main = this_thread.main, None

    def restore() -> None:
        this_thread.main = outer

    return restore


def abandon(scheduler: Scheduler) -> None:
    """Cancel the dhagas of the main code's scheduler, and close the scheduler. Dhagas that do not end stay alive."""
    cancel_dhagas(scheduler)
    close_after_cancels(scheduler)


def cancel_dhagas(scheduler: Scheduler) -> None:
    """Cancel the dhagas of the main code's scheduler, at most ``MAX_CANCELS`` times each. Parks: until they have ended,
    at most 1 s after each cancel.
    """
    for _ in range(MAX_CANCELS):
        scheduler.cancel_all("the test is over")
        for dhaga in scheduler.in_order():
            with contextlib.suppress(Exception, SystemExit, Cancelled):
                dhaga.join(1)


def close_after_cancels(scheduler: Scheduler) -> None:
    """Close the main code's scheduler. If a dhaga has not ended, keep the scheduler alive."""
    if scheduler.live:
        ended_schedulers.append(scheduler)
    scheduler.mode.close()
