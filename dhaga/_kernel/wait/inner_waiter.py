"""The waiter of a finalizer that interrupts its dhaga in the middle of a park, and parks itself.

A collection may call ``__del__`` between the two halves of a wait (``waiter.py``): the dhaga counts as parked, is
in a queue, and has not switched away yet. If the finalizer parks there, for a contended lock, the dhaga would have two
parks and one ticket. So the finalizer parks with an ``InnerWaiter`` of its own, on the same greenlet. A wake, timeout
or cancel of the outer park switches to that greenlet too early: it is kept, and delivered once the finalizer is done.
On the hub a finalizer cannot park at all: see ``current.py``.
"""

from __future__ import annotations

from typing import Any

from .thread_waiter import OSThread
from .waiter import Waiter


class InnerWaiter(Waiter):
    """A second park of the greenlet of ``outer``, which is parked already and has not switched away yet."""

    __slots__ = (
        "_error",
        "_outer",
        "_value",
        "_was_switched_to",
        "arrival",
        "ident",
        "name",
        "own_priority",
        "park_reason",
        "parked",
        "parked_since",
        "pending_errors",
        "scheduler",
        "wait_target",
        "wake_queue",
    )

    def __init__(self, outer: Any) -> None:
        self._outer = outer
        self._assign_to(outer.scheduler, outer.own_priority)
        self.ident = outer.ident
        self.name = outer.name
        self._was_switched_to = False
        self._init_wait()

    def __repr__(self) -> str:
        return f"<Finalizer in {self.name} {'WAITING ' + self.park_reason if self.parked else 'RUNNING'}>"

    def switch(self) -> None:
        """Go on after the inner park. From: the scheduler, for the entry that the wake has put into its run queue."""
        self._was_switched_to = True
        self.scheduler._switch_to(self._outer)

    def park_within(self, timeout: float | None) -> Any:
        """Park as a dhaga does, however often a wake of the outer park switches here."""
        scheduler, outer = self.scheduler, self._outer
        self.parked_since = scheduler.clock()
        entry = None if timeout is None else scheduler.timers.add(self.parked_since + timeout, self)
        outer_is_woken = False
        try:
            while not self._was_switched_to:
                self.switch_away()
                outer_is_woken = outer_is_woken or not self._was_switched_to
        finally:
            if entry is not None:
                scheduler.timers.discard(entry)
            if outer_is_woken:
                outer.wake_queue.append(outer)
        self._was_switched_to = False
        if self._error is not None:
            self._throw_error()
        value, self._value = self._value, None
        return value

    def switch_away(self) -> None:
        """Switch away; if the outer waiter is main code, as main code does."""
        switch_main = getattr(self._outer, "_let_others_run", None)
        if switch_main is not None:
            switch_main()
        else:
            self.scheduler._let_others_run(self)


def inner_waiter(outer: Waiter) -> Waiter:
    """Return a waiter for code that parks while ``outer``, which runs it, counts as parked."""
    return OSThread() if isinstance(outer, OSThread) else InnerWaiter(outer)
