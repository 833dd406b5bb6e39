"""Victims of ``dhaga.testing``: dhagas whose parks or events are counted, and that get an error at the nth."""

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
"""The number of callers that an error's note names, besides the function that got the cancel."""


class ParkWatch:
    """Counts the parks of a victim, calls ``at_park`` at the nth, and ``at_wake`` when that park ends.

    The victim gets its own class, in which ``parked`` is a property, and its own queue for wakes.
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
    """The queue that a victim's wakes append to."""

    def __init__(self, queue: Any, watch: ParkWatch) -> None:
        self.queue = queue
        self.watch = watch

    def append(self, waiter: Any) -> None:
        self.queue.append(waiter)
        self.watch.note_wake()


class EventWatch:
    """Counts the events of a victim's own code, and cancels it at the nth."""

    def __init__(self, nth: int) -> None:
        self.events_left: int = nth
        self.victim: Dhaga | None = None
        self.place = "no event"

    def begin(self, victim: Dhaga) -> None:
        # A cancel strikes computing code only where the program asks for it.
        victim.scheduler.quantum = QUANTUM
        victim.result_waiters += 1
        self.victim = victim

    def is_nth(self) -> bool:
        """Return whether the event is the one to strike at, and cancel the victim."""
        victim = self.victim
        if victim is None or getcurrent() is not victim or self.events_left <= 0:
            return False
        frame = program_frame(sys._getframe(1))
        # Others could not run where Dhaga calls the standard library, and so could not cancel the victim.
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
        """Describe the cancel, for an error that follows it."""
        return f"the victim was to get a cancel at {self.place}"
