"""The binding of a scheduler to an OS thread and its loop, from its beginning to its end. When: ``run_modes.py``."""

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
    """The part of a scheduler that takes its place in an OS thread, and leaves it."""

    __slots__ = ()

    def _attach(self, mode: RunMode, hub: Any, ioloop: IOLoop) -> None:
        """Bind the scheduler to this OS thread, with ``hub`` as the greenlet in which its loop runs."""
        self.mode: RunMode = mode
        self.thread_ident: int = originals.get_ident()
        now = self.clock()
        self.started_at: float = now
        # Main code that never waits has run no lap yet, and must yield to the first one.
        self._next_poll_at, self._lap_ends_at = now + POLL_INTERVAL, now + LAP_SECONDS
        self.hub = hub
        self.ioloop = ioloop
        with above_standard_fds():
            self.poller: Poller = Context().run(new_poller, ioloop, self._lap)
        if self.selector is not None:
            # Our own fds are counted before the program adds handlers: a loop with more fds may wake by itself.
            self.selector.own_fds = len(self.selector.get_map())
        me = cast("Scheduler", self)
        schedulers.add(me)
        for hook in hooks.on_scheduler:
            hook(me, True)

    def _detach(self) -> None:
        """Release the loop and the scheduler's resources of the operating system."""
        schedulers.discard(cast("Scheduler", self))
        deadlock.unmark_stuck(self.thread_ident)
        self._loop_timer.cancel()
        self.poller.detach()
        self._detach_thread()
        self._reject_not_started()

    def _detach_thread(self) -> None:
        """Leave the OS thread: another thread may get its ident."""
        self.mode.leave_thread()
        for hook in hooks.on_scheduler:
            hook(cast("Scheduler", self), False)
        self.thread_ident = 0
        # Each wake then calls wake_loop, which finds no thread and does nothing.
        self.asleep = True

    @property
    def main_waiter(self) -> Main | Dhaga | None:
        """The main code that this scheduler serves, if it has any; in a forked child that may be a dhaga."""
        return self.mode.main

    @property
    def thread(self) -> Any:
        """The OS thread that this scheduler was started in, if it has one of its own."""
        return self.mode.thread


# Every scheduler that is bound to a thread and has not ended.
schedulers: set[Scheduler] = set()
