"""Membership: the dhagas of a scheduler, how they come and go, and their cancel when it ends."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import getcurrent

from .. import hooks, originals
from ..errors import Cancelled
from .entries import NewcomerCancel
from .microthread import Dhaga, next_ident
from .scheduler_state import SchedulerState


class Membership(SchedulerState):
    """The part of a scheduler that admits dhagas, removes them and cancels them all."""

    __slots__ = ()

    def _init_membership(self) -> None:
        self.live: set[Dhaga] = set()
        self.closing = False
        # Set once all dhagas are cancelled because the scheduler ends; those with a higher ident are newcomers.
        self._end_reason: str | None = None
        self._last_old_ident = 0

    def admit(self, dhaga: Dhaga) -> None:
        """Admit a NEW dhaga, at the end of the run queue. Raises: RuntimeError once stopped."""
        # Its own thread may still spawn: a finally block of a dhaga that is being cancelled, for example.
        if self.closing and originals.get_ident() != self.thread_ident:
            raise RuntimeError(f"{self!r} is stopped: it takes no more dhagas")
        if self.asleep and (not self.thread_ident or self.loop.is_closed()):
            raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")
        on_spawn = hooks.on_spawn
        if on_spawn is not None:
            on_spawn(dhaga)
        # greenlet throws GreenletExit into a suspended greenlet whose last reference is dropped.
        self.live.add(dhaga)
        new_queue = self.new_queues[dhaga.own_priority]
        new_queue.not_started.append(dhaga)
        dhaga.wake_queue.append(new_queue)
        if self._end_reason is not None:
            self._cancel_newcomer(dhaga)
        if self.asleep:
            self.wake_loop()
            # The scheduler may end after the checks above, in another OS thread: either its end finds the dhaga, or the
            # dhaga is refused here.
            if not self.thread_ident and self._take_off(dhaga):
                raise RuntimeError(f"{self!r} has stopped: it takes no more dhagas")

    def _take_off(self, dhaga: Dhaga) -> bool:
        """Remove a dhaga from the live ones, atomically. Returns: False if it is no longer among them."""
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
        """Cancel every dhaga that is not spared, and each newcomer: nothing else may delay the end."""
        self._last_old_ident = next_ident()
        self._end_reason = reason
        for dhaga in self.in_order():
            if not is_spared(dhaga):
                dhaga.cancel_with(Cancelled(reason))

    def _accept_newcomers(self) -> None:
        """Accept dhagas as usual again, if the scheduler goes on after ``_cancel_for_end``."""
        if not self.closing:
            self._end_reason = None

    def end_where_it_is(self, dhaga: Dhaga, error: BaseException) -> None:
        """End a dhaga without running it again: not even its ``finally`` blocks run. ``result()`` raises the error.

        From: a simulation, in this scheduler's thread. It takes the dhaga off the run queues, and keeps it: a suspended
        greenlet whose last reference is dropped would run on, with a GreenletExit.
        """
        dhaga.cancel_with(error)
        dhaga._error = error
        dhaga._end()

    def is_ending(self) -> bool:
        """Return whether the scheduler is ending and has cancelled all its dhagas."""
        return self._end_reason is not None

    def _cancel_newcomer(self, dhaga: Dhaga) -> None:
        """Cancel a dhaga that was spawned after all were cancelled; once, like the others.

        It runs to its first park, because a ``finally`` may have spawned it. Dhagas that a newcomer spawns do not
        start: otherwise a dhaga that starts its successor in its ``finally`` would go on for ever.
        """
        spawner, error = getcurrent(), Cancelled(self._end_reason)
        if isinstance(spawner, Dhaga) and spawner.ident > self._last_old_ident:
            dhaga.cancel_with(error)
        else:
            dhaga.wake_queue.append(NewcomerCancel(dhaga, error))

    def in_order(self) -> list[Dhaga]:
        """Return the live dhagas, the oldest first."""
        return sorted(self.live, key=lambda dhaga: dhaga.ident)
