"""The state of a scheduler: the slots that all parts of a scheduler share, and their initial values.

C code reads and writes some of these slots: see fast_paths/known_classes.h.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tornado.ioloop import IOLoop

from .. import originals
from ..own_fds import above_standard_fds
from ..wait.waiter import Waiter
from .loop import HubSelector, new_loop
from .timers import Entry, Expiring, LoopTimer, Timers

if TYPE_CHECKING:
    from .entries import HubCall
    from .poller import Poller
    from .run_modes import RunMode
    from .run_queues import HighQueue, LowQueue, NewWorkQueue, PreemptedQueue
    from .scheduler import NewQueue

next_number = itertools.count(1).__next__

Around = Callable[[Waiter, Callable[[], None]], None]
"""A function that a park calls instead of switching. Its arguments are the waiter and the function that switches."""


def nest(arounds: tuple[Around, ...], me: Waiter, switch_away: Callable[[], None]) -> None:
    """Call the first function. Its ``switch_away`` calls the next function; the last function gets the real switch."""
    first, *others = arounds
    first(me, partial(nest, tuple(others), me, switch_away) if others else switch_away)


class SchedulerState:
    """The state of a scheduler. The parts of ``Scheduler`` (lap, membership, attachment) derive from this class."""

    __slots__ = (  # noqa: RUF023
        "__weakref__",
        # run queues
        "run_queue",
        "_high",
        "_low",
        "_new_work",
        "_preempted",
        "units_in_progress",
        "last_unit_turn",
        "new_queues",
        "_next_on_hub",
        # switching
        "hub",
        "_arounds",
        "around_park",
        "_turn",
        "turn_ends_at",
        # preemption: see preemption.py
        "quantum",
        "preemptions",
        # the lap: see lap.py
        "busy_seconds",
        "_check_every",
        "_checks_at_poll",
        "_checks_left",
        "_counted_switches",
        "_full_laps",
        "_busy_since",
        "_lap_began",
        "_lap_ends_at",
        "_lap_over",
        "laps",
        "_next_poll_at",
        "_switches_left",
        "_traced",
        "_uncounted_from",
        # members: see membership.py
        "closing",
        "_end_reason",
        "_last_old_ident",
        "live",
        # fds and timers
        "clock",
        "timers",
        "_loop_timer",
        "poller",
        "selector",
        # thread and loop
        "name",
        "loop",
        "ioloop",
        "thread_ident",
        "started_at",
        "mode",
        "asleep",
        "outside_calls",
    )  # fmt: skip

    def __init__(self, name: str | None, loop: asyncio.AbstractEventLoop | None) -> None:
        self.name: str = name or f"scheduler-{next_number()}"
        self.selector: HubSelector | None = None
        if loop is None:
            with above_standard_fds():
                self.selector = HubSelector()
                loop = new_loop(self.selector)
            # Without this line, asyncio would look up ``time.monotonic`` in each turn of the loop. A test may replace
            # that function.
            loop.time = originals.monotonic  # type: ignore[method-assign]
            # asyncio has no public attribute for its self-pipe.
            self.selector.protect(getattr(loop, "_ssock", None), getattr(loop, "_csock", None))
        self.loop: asyncio.AbstractEventLoop = loop
        self.clock: Callable[[], float] = originals.monotonic
        self.run_queue: deque[Any] = deque()
        self._high: HighQueue
        self._low: LowQueue
        self._new_work: NewWorkQueue
        self._preempted: PreemptedQueue
        # The number of units of work (see new_work.py) that have begun and not ended.
        self.units_in_progress: int = 0
        # The turn in which the last unit of work began, identified by the number of switches before the turn.
        self.last_unit_turn: int = -1
        self.timers: Timers = Timers()
        self.hub: Any = None
        self.new_queues: list[NewQueue]
        self._next_on_hub: NewQueue | HubCall | None = None
        self.asleep: bool = False
        # The last turn that turn_budget.py has checked (identified by the number of switches before it), and the turn's
        # deadline.
        self._turn = -1
        self.turn_ends_at: float = 0.0
        # The seconds after which a turn is overlong; 0: never; None: the default of the process.
        self.quantum: float | None = None
        self.preemptions: int = 0
        self.started_at: float = 0.0
        self.thread_ident: int = 0
        self.mode: RunMode
        # The number of calls that run in helper threads. Each of them wakes a waiter at its end, so the process is not
        # deadlocked while a call runs.
        self.outside_calls: int = 0
        self._loop_timer: LoopTimer
        # The hook that parks call instead of switching (see hooks.py). Its listeners: running_loop.py and tracing.py.
        self.around_park: Around | None = None
        self._arounds: tuple[Around, ...] = ()
        self.ioloop: IOLoop
        self.poller: Poller

    def expire_after(self, seconds: float, expiring: Expiring) -> Entry:
        """Schedule ``expiring._expire()`` on the hub after ``seconds``. Returns: the entry, for ``timers.discard``."""
        return self.timers.add(self.clock() + seconds, expiring)

    def count_runnable(self) -> int:
        """Return the number of runnable entries."""
        return len(self.run_queue) + len(self._new_work) + len(self._preempted) + len(self._low)

    def add_around_park(self, around: Around) -> None:
        """Register ``around(waiter, switch_away)``, which each park calls instead of switching. No-op the second time.

        From: this scheduler's thread. The function must call ``switch_away()`` once. This call runs the functions that
        were registered later, and then switches.
        """
        if around not in self._arounds:
            self._set_arounds((*self._arounds, around))

    def remove_around_park(self, around: Around) -> None:
        """Remove a function that ``add_around_park`` has registered."""
        self._set_arounds(tuple(each for each in self._arounds if each is not around))

    def _set_arounds(self, arounds: tuple[Around, ...]) -> None:
        self._arounds = arounds
        self.around_park = arounds[0] if len(arounds) == 1 else partial(nest, arounds) if arounds else None

    def woken(self) -> list[Any]:
        """Return the runnable entries, which include all waiters that were woken and have not run since.

        From: any thread. In a thread other than the scheduler's, the result is a snapshot.
        """
        found: list[Any] = []
        for queue in (self.run_queue, self._high.waiters, self._new_work, self._preempted, self._low):
            while True:
                try:
                    found += [*queue]
                    break
                except RuntimeError:  # only without the interpreter lock: another OS thread has changed the queue
                    continue
        return found

    def wake_loop(self) -> None:
        """Wake a sleeping loop, so that it begins a lap: see lap.py."""
        raise NotImplementedError
