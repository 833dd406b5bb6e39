"""The scheduler of tests and simulations: its clock jumps to the next deadline as soon as every dhaga waits.

The jump is in the selector, which the loop asks to sleep until the next deadline. The order of the run queue is the
caller's choice (``run/chosen_queue.py``).
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
from ..run.scheduler import Scheduler
from ..wait.current import this_thread
from ..wait.deadlock import DeadlockWatch
from .shutdown import ended_schedulers

MAX_CANCELS = 5
"""The number of cancels of a dhaga before ``abandon`` gives up."""

ROUNDING = 1e-6
"""Deadlines that differ by less, in seconds, are the same: the difference is rounding."""


class VirtualClock:
    """The clock of ``virtual_clock()``: ``clock()`` returns seconds from 0, which pass only while every dhaga sleeps.

    ``now`` may be set, to a later time; sleepers that are due are woken when the loop runs next.
    """

    def __init__(self) -> None:
        self.now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def __repr__(self) -> str:
        return f"<VirtualClock at {self.now:g} s>"


class ClockSince(VirtualClock):
    """Another virtual clock, read from 0 on since now."""

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

    While a call is under way in an OS thread the clock stands still, and the selector waits in real time.
    ``is_shared``: ``virtual_clock()`` in its main code yields this clock instead of another one.
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
        assert self.scheduler is not None
        if self.scheduler.outside_calls:
            return super().select(None)
        self.jump(timeout)
        return []

    def jump(self, seconds: float) -> None:
        """Move the clock, exactly to a timer's deadline if only rounding keeps them apart."""
        assert self.scheduler is not None
        there = self.clock.now + seconds
        deadline = self.scheduler.timers.next_deadline()
        if deadline is not None and abs(deadline - there) < ROUNDING:
            there = max(deadline, self.clock.now)
        self.clock.now = there


def new_virtual_scheduler(
    selector: JumpingSelector, new_queue: Callable[[], deque[Any]] | None = None, new_starts: bool = True
) -> Scheduler:
    """Return a scheduler for the main code of this thread, on the selector's clock.

    ``new_queue``: makes its run queue, and the queues of dhagas that have not started unless ``new_starts`` is false.
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
    ImplicitMode(scheduler)
    return scheduler


def set_main_aside() -> Callable[[], None]:
    """Leave this OS thread without main code, for ``new_virtual_scheduler``. Returns: a function that undoes it."""
    outer, this_thread.main = this_thread.main, None

    def restore() -> None:
        this_thread.main = outer

    return restore


def abandon(scheduler: Scheduler) -> None:
    """Cancel the dhagas of the main code's scheduler and close it; a dhaga that does not end is kept alive."""
    cancel_dhagas(scheduler)
    close_after_cancels(scheduler)


def cancel_dhagas(scheduler: Scheduler) -> None:
    """Cancel the dhagas of the main code's scheduler, as often as it takes. Parks: until they have ended."""
    for _ in range(MAX_CANCELS):
        scheduler.cancel_all("the test is over")
        for dhaga in scheduler.in_order():
            with contextlib.suppress(Exception, SystemExit, Cancelled):
                dhaga.join(1)


def close_after_cancels(scheduler: Scheduler) -> None:
    """Close the main code's scheduler; keep it if a dhaga has not ended."""
    if scheduler.live:
        ended_schedulers.append(scheduler)
    scheduler.mode.close()
