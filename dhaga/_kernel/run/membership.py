"""Membership: adding dhagas to a scheduler, removing them, and cancelling them when the scheduler ends."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent

from .. import hooks, originals
from ..errors import Cancelled
from .entries import NewcomerCancel
from .microthread import Dhaga, next_ident
from .scheduler_state import SchedulerState


class Membership(SchedulerState):
    """The part of ``Scheduler`` that adds dhagas, removes them, and cancels all dhagas at the end."""

    __slots__ = ()

    def _init_membership(self) -> None:
        self.live: set[Dhaga] = set()
        self.closing = False
        # These two attributes are set when the scheduler ends and cancels all its dhagas. Dhagas whose ident is higher
        # than ``_last_old_ident`` are newcomers.
        self._end_reason: str | None = None
        self._last_old_ident = 0

    def admit(self, dhaga: Dhaga) -> None:
        """Add a NEW dhaga at the end of the run queue. Raises: RuntimeError once the scheduler is stopped."""
        # The scheduler's own thread may still spawn, for example in a finally block of a cancelled dhaga.
        if self.closing and originals.get_ident() != self.thread_ident:
            raise RuntimeError(f"{self!r} is stopped: it takes no more dhagas")
        if self.asleep and (not self.thread_ident or self.loop.is_closed()):
            raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")
        on_spawn = hooks.on_spawn
        if on_spawn is not None:
            on_spawn(dhaga)
        # Keep a reference: greenlet throws GreenletExit into a suspended greenlet whose last reference is dropped.
        self.live.add(dhaga)
        new_queue = self.new_queues[dhaga.own_priority]
        new_queue.not_started.append(dhaga)
        dhaga.wake_queue.append(new_queue)
        if self._end_reason is not None:
            self._cancel_newcomer(dhaga)
        if self.asleep:
            self.wake_loop()
            # The scheduler may have ended after the checks above, in another OS thread. In that case, either
            # _reject_not_started of the ending scheduler removes the dhaga, or this code removes the dhaga and raises.
            if not self.thread_ident and self._take_off(dhaga):
                raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")

    def _take_off(self, dhaga: Dhaga) -> bool:
        """Remove a dhaga from ``live`` atomically. Returns: False if the dhaga was already removed."""
        try:
            self.live.remove(dhaga)
        except KeyError:
            return False
        return True

    def _reject_not_started(self) -> None:
        """End the dhagas that another OS thread spawned just as the scheduler ended; they never start."""
        for dhaga in list(self.live):
            # A greenlet is false until its first switch.
            if not dhaga and self._take_off(dhaga):
                dhaga._error = Cancelled(f"{self.name} has stopped")
                dhaga._end()

    def cancel_all(self, reason: object = None) -> None:
        """Cancel every dhaga of this scheduler, the oldest first."""
        for dhaga in self.in_order():
            dhaga.cancel_with(Cancelled(reason))

    def _cancel_for_end(self, reason: str, is_spared: Callable[[Dhaga], bool] = lambda dhaga: False) -> None:
        """Cancel every dhaga that is not spared, and each newcomer from now on, so that no dhaga delays the end."""
        self._last_old_ident = next_ident()
        self._end_reason = reason
        for dhaga in self.in_order():
            if not is_spared(dhaga):
                dhaga.cancel_with(Cancelled(reason))

    def _accept_newcomers(self) -> None:
        """Stop cancelling newcomers, if the scheduler continues after ``_cancel_for_end``."""
        if not self.closing:
            self._end_reason = None

    def end_where_it_is(self, dhaga: Dhaga, error: BaseException) -> None:
        """End a dhaga without running it again. Even its ``finally`` blocks do not run. ``result()`` raises the error.

        From: a simulation, in this scheduler's thread. The simulation removes the dhaga from the run queues and keeps a
        reference: a suspended greenlet whose last reference is dropped would run again, with a GreenletExit.
        """
        dhaga.cancel_with(error)
        dhaga._error = error
        dhaga._end()

    def is_ending(self) -> bool:
        """Return whether the scheduler is ending and has cancelled all its dhagas."""
        return self._end_reason is not None

    def _cancel_newcomer(self, dhaga: Dhaga) -> None:
        """Cancel a newcomer (a dhaga spawned after all others were cancelled) once, like the others.

        A newcomer runs to its first park, because a ``finally`` block may have spawned it to clean up. Dhagas that a
        newcomer spawns do not start: otherwise a chain of dhagas, each spawned in a ``finally`` block, would never end.
        """
        spawner, error = getcurrent(), Cancelled(self._end_reason)
        if isinstance(spawner, Dhaga) and spawner.ident > self._last_old_ident:
            dhaga.cancel_with(error)
        else:
            dhaga.wake_queue.append(NewcomerCancel(dhaga, error))

    def in_order(self) -> list[Dhaga]:
        """Return the live dhagas, the oldest first."""
        return sorted(self.live, key=lambda dhaga: dhaga.ident)
