"""The state of a scheduler: the slots that its parts share, and their first values.

C reads and writes some of them: fast_paths/known_classes.h.
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
"""A function that a park calls in place of the switch, with the waiter and the function that switches."""


def nest(arounds: tuple[Around, ...], me: Waiter, switch_away: Callable[[], None]) -> None:
    """Call the first function around the second one, and so on, and the last one around the switch."""
    first, *others = arounds
    first(me, partial(nest, tuple(others), me, switch_away) if others else switch_away)


class SchedulerState:
    """The state of a scheduler. Its parts (lap, membership, attachment) derive from it and add methods."""

    __slots__ = (  # noqa: RUF023
        "__weakref__",
        # run queues
        "run_queue",
        "_high",
        "_low",
        "_new_work",
        "_preempted",
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
            # asyncio would look up ``time.monotonic`` at each turn, which a test may have replaced.
            loop.time = originals.monotonic  # type: ignore[method-assign]
            # asyncio does not tell its self-pipe otherwise.
            self.selector.protect(getattr(loop, "_ssock", None), getattr(loop, "_csock", None))
        self.loop: asyncio.AbstractEventLoop = loop
        self.clock: Callable[[], float] = originals.monotonic
        self.run_queue: deque[Any] = deque()
        self._high: HighQueue
        self._low: LowQueue
        self._new_work: NewWorkQueue
        self._preempted: PreemptedQueue
        self.timers: Timers = Timers()
        self.hub: Any = None
        self.new_queues: list[NewQueue]
        self._next_on_hub: NewQueue | HubCall | None = None
        self.asleep: bool = False
        # The turn that was last checked, by its number of switches, and its deadline: see turn_budget.py.
        self._turn = -1
        self.turn_ends_at: float = 0.0
        # After how many seconds a turn is overlong; 0: never; None: as for the others.
        self.quantum: float | None = None
        self.preemptions: int = 0
        self.started_at: float = 0.0
        self.thread_ident: int = 0
        self.mode: RunMode
        # Running calls in helper threads, which will wake a waiter: no deadlock while there are any.
        self.outside_calls: int = 0
        self._loop_timer: LoopTimer
        # A listener that switches instead of us, see hooks.py: an asyncio loop in a dhaga swaps its thread state.
        self.around_park: Around | None = None
        self._arounds: tuple[Around, ...] = ()
        self.ioloop: IOLoop
        self.poller: Poller

    def expire_after(self, seconds: float, expiring: Expiring) -> Entry:
        """Call ``expiring._expire()`` after ``seconds``, on the hub. Returns: the entry, to be discarded."""
        return self.timers.add(self.clock() + seconds, expiring)

    def count_runnable(self) -> int:
        """Return the number of entries that are runnable."""
        return len(self.run_queue) + len(self._new_work) + len(self._preempted) + len(self._low)

    def add_around_park(self, around: Around) -> None:
        """Register ``around(waiter, switch_away)``, which each park calls in place of the switch; else no-op.

        From: this scheduler's thread. The function calls ``switch_away()`` once; those added earlier are outside.
        """
        if around not in self._arounds:
            self._set_arounds((*self._arounds, around))

    def remove_around_park(self, around: Around) -> None:
        """Undo ``add_around_park``."""
        self._set_arounds(tuple(each for each in self._arounds if each is not around))

    def _set_arounds(self, arounds: tuple[Around, ...]) -> None:
        self._arounds = arounds
        self.around_park = arounds[0] if len(arounds) == 1 else partial(nest, arounds) if arounds else None

    def woken(self) -> list[Any]:
        """Return the entries that are runnable, the waiters that were woken and have not run since among them.

        From: any thread; of another one's scheduler it is a snapshot.
        """
        found: list[Any] = []
        for queue in (self.run_queue, self._high.waiters, self._new_work, self._preempted, self._low):
            while True:
                try:
                    found += [*queue]
                    break
                except RuntimeError:  # without the interpreter lock, another OS thread changed the queue meanwhile
                    continue
        return found

    def wake_loop(self) -> None:
        """Make a sleeping loop begin a lap: see lap.py."""
        raise NotImplementedError
