"""Attachment of a scheduler to an OS thread and an event loop, and detachment. ``run_modes.py`` decides when."""

from __future__ import annotations

from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from tornado.ioloop import IOLoop

from .. import hooks, originals
from ..own_fds import above_standard_fds
from ..wait import deadlock
from .lap import LAP_SECONDS, POLL_INTERVAL, Lap
from .main_code import Main
from .membership import Membership
from .microthread import Dhaga
from .new_poller import new_poller
from .poller import Poller

if TYPE_CHECKING:
    from .run_modes import RunMode
    from .scheduler import Scheduler


class Attachment(Lap, Membership):
    """The part of ``Scheduler`` that attaches the scheduler to an OS thread, and detaches it."""

    __slots__ = ()

    def _attach(self, mode: RunMode, hub: Any, ioloop: IOLoop) -> None:
        """Attach the scheduler to this OS thread, with ``hub`` as the greenlet in which the loop runs."""
        # The poller is made first. If this fails, the scheduler stays detached.
        with above_standard_fds():
            self.poller: Poller = Context().run(new_poller, ioloop, self._lap)
        self.mode: RunMode = mode
        self.thread_ident: int = originals.get_ident()
        now = self.clock()
        self.started_at: float = now
        # Set the limits of a lap before the first lap: the yields of main code check these limits, so that the loop
        # gets its turn even if the main code only yields.
        self._next_poll_at, self._lap_ends_at = now + POLL_INTERVAL, now + LAP_SECONDS
        self.hub = hub
        self.ioloop = ioloop
        if self.selector is not None:
            # Count Dhaga's own fds before the program adds handlers: an fd that is not counted belongs to the program,
            # and may wake the loop.
            self.selector.own_fds = len(self.selector.get_map())
        me = cast("Scheduler", self)
        schedulers.add(me)
        for hook in hooks.on_scheduler:
            hook(me, True)

    def _detach(self) -> None:
        """Detach the scheduler from its loop and its OS thread, and close the poller."""
        schedulers.discard(cast("Scheduler", self))
        deadlock.unmark_stuck(self.thread_ident)
        self._loop_timer.cancel()
        self.poller.detach()
        self._detach_thread()
        self._reject_not_started()

    def _detach_thread(self) -> None:
        """Detach the scheduler from the OS thread, whose ident a later thread may get."""
        self.mode.leave_thread()
        for hook in hooks.on_scheduler:
            hook(cast("Scheduler", self), False)
        self.thread_ident = 0
        # From now on each wake calls wake_loop, which finds no thread and does nothing.
        self.asleep = True

    @property
    def main_waiter(self) -> Main | Dhaga | None:
        """The waiter of the main code in this scheduler's thread, or None. In a forked child, the main code may be a
        dhaga.
        """
        return self.mode.main

    @property
    def thread(self) -> Any:
        """The OS thread that was started for this scheduler, or None."""
        return self.mode.thread


# All schedulers that are attached to an OS thread.
schedulers: set[Scheduler] = set()


def watched_fds() -> set[int]:
    """Return the fds that the pollers of all schedulers watch. From: any thread."""
    return {watcher.fd for scheduler in list(schedulers) for watcher in scheduler.poller.all_watchers()}


def forget_file(fd: int) -> None:
    """Wake the waiters of an fd whose number is about to refer to another file or to none: they retry their calls.

    From: any thread. A callback of the loop wakes the waiters of another thread, perhaps only after the change of the
    fd.
    """
    here = originals.get_ident()
    for scheduler in list(schedulers):
        if scheduler.poller.is_watching(fd):
            if scheduler.thread_ident == here:
                scheduler.poller.forget(fd)
            else:
                scheduler.ioloop.add_callback(scheduler.poller.forget, fd)
