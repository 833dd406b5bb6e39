"""Helpers of ``dhaga.testing`` that count the parks or events of a dhaga (the *victim*), and disturb the dhaga at the
nth park or event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent

from ..run.call_outs import program_frame
from ..run.microthread import Dhaga
from ..run.preemption import QUANTUM, may_end_turn
from ..stacks import stack_of

CALLERS = 3
"""The number of callers that an error's note names, besides the cancelled function."""


class ParkWatch:
    """A counter of a victim's parks. It calls ``at_park`` at the nth park, and ``at_wake`` at the wake from this park.

    To notice parks, the watch gives the victim a class of its own, in which ``parked`` is a property. To notice wakes,
    the watch gives the victim a ``WatchedQueue``.
    """

    def __init__(self, nth: int) -> None:
        self.parks_left: int = nth
        self.at_park: Callable[[], object] = lambda: None
        self.at_wake: Callable[[], object] = lambda: None
        self.reasons: list[str] = []

    def begin(self, victim: Dhaga) -> None:
        slot: Any = Dhaga.__dict__["parked"]

        def park(dhaga: Dhaga, ticket: list[Any]) -> None:
            slot.__set__(dhaga, ticket)
            self.note_park(dhaga.park_reason)

        kind = type(victim)
        namespace = {"__slots__": (), "parked": property(slot.__get__, park)}
        victim.__class__ = type(kind.__name__, (kind,), namespace)
        victim.wake_queue = WatchedQueue(victim.wake_queue, self)

    def note_park(self, reason: str) -> None:
        self.reasons.append(reason)
        self.parks_left -= 1
        if not self.parks_left:
            self.at_park()

    def note_wake(self) -> None:
        if not self.parks_left:
            self.parks_left = -1
            self.at_wake()


class WatchedQueue:
    """A queue in front of the victim's run queue: wakes append the victim to this queue."""

    def __init__(self, queue: Any, watch: ParkWatch) -> None:
        self.queue = queue
        self.watch = watch

    def append(self, waiter: Any) -> None:
        self.queue.append(waiter)
        self.watch.note_wake()


class EventWatch:
    """A counter of ``sys.monitoring`` events in a victim's own code. It cancels the victim at the nth event."""

    def __init__(self, nth: int) -> None:
        self.events_left: int = nth
        self.victim: Dhaga | None = None
        self.place = "no event"

    def begin(self, victim: Dhaga) -> None:
        # With a quantum of its own, the scheduler lets a cancel interrupt code that computes.
        victim.scheduler.quantum = QUANTUM
        victim.result_waiters += 1
        self.victim = victim

    def is_nth(self) -> bool:
        """Count an event of the victim. At the nth event, cancel the victim and return True."""
        victim = self.victim
        if victim is None or getcurrent() is not victim or self.events_left <= 0:
            return False
        frame = program_frame(sys._getframe(1))
        # Where a turn cannot end (for example, while Dhaga calls the standard library), no other dhaga could cancel the
        # victim.
        if not may_end_turn(victim, frame):
            return False
        self.events_left -= 1
        if self.events_left:
            return False
        stack = stack_of(frame)
        self.place = ", called by ".join(map(str, stack[: -CALLERS - 2 : -1]))
        victim.cancel("at an event")
        return True

    def note(self) -> str:
        """Describe the cancel, for an error that follows the cancel."""
        return f"the victim was to get a cancel at {self.place}"
