"""The state of a scheduler: the slots that its parts share, and their first values.

C reads and writes some of them: fast_paths/known_classes.h.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tornado.ioloop import IOLoop

from .. import originals
from ..wait.waiter import Waiter
from .loop import HubSelector
from .timers import Entry, Expiring, LoopTimer, Timers

if TYPE_CHECKING:
    from .entries import HubCall
    from .poller import Poller
    from .run_modes import RunMode
    from .run_queues import HighQueue, LowQueue, NewWorkQueue, PreemptedQueue
    from .scheduler import NewQueue

next_number = itertools.count(1).__next__


class SchedulerState:
    """The state of a scheduler. Its parts (lap, membership) derive from it and add methods."""

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
            self.selector = HubSelector()
            # A loop calls each handler in the context of its registration: this must not be the context of the first
            # request.
            loop = Context().run(originals.SelectorEventLoop, self.selector)
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
        self.around_park: Callable[[Waiter, Callable[[], None]], None] | None = None
        self.ioloop: IOLoop
        self.poller: Poller

    def expire_after(self, seconds: float, expiring: Expiring) -> Entry:
        """Call ``expiring._expire()`` after ``seconds``, on the hub. Returns: the entry, to be discarded."""
        return self.timers.add(self.clock() + seconds, expiring)

    def count_runnable(self) -> int:
        """Return the number of entries that are runnable."""
        return len(self.run_queue) + len(self._new_work) + len(self._preempted) + len(self._low)

    def wake_loop(self) -> None:
        """Make a sleeping loop begin a lap: see lap.py."""
        raise NotImplementedError
