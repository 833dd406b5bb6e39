"""The waiter of an OS thread's main code, if the thread has a scheduler. Signal handlers run while this waiter is
parked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from .. import originals
from ..wait.cancellation import pending_errors_of
from ..wait.waiter import Waiter, claim
from .microthread import RUNNABLE, RUNNING, WAITING
from .run_queues import NORMAL

if TYPE_CHECKING:
    from .scheduler import Scheduler


class Main(Waiter):
    """The main code of an OS thread that has a scheduler. It parks and is woken like a dhaga, but was never spawned."""

    __slots__ = (
        "_error",
        "_signals",
        "_value",
        "arrival",
        "ident",
        "name",
        "own_greenlet",
        "own_priority",
        "park_reason",
        "parked",
        "parked_since",
        "pending_errors",
        "scheduler",
        "switch",
        "wait_target",
        "wake_queue",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        # A SignalDelivery, once a signal has come; see _kernel/process/signals.py.
        self._signals: Any = None
        self._assign_to(scheduler, NORMAL)
        self.own_greenlet: greenlet = getcurrent()
        # The method by which the scheduler runs this waiter, like any run-queue entry; see _kernel/run/entries.py.
        self.switch: Callable[..., Any] = self.own_greenlet.switch
        self.ident: int = originals.get_ident()
        self.name: str = "main code"
        self.own_greenlet.name = self.name  # type: ignore[attr-defined]
        self._init_wait()

    def __repr__(self) -> str:
        return f"<Main code of {self.scheduler.name} {self.state}{f' {self.park_reason}' if self.parked else ''}>"

    @property
    def state(self) -> str:
        """The state: RUNNABLE, RUNNING or WAITING. It may be outdated for a caller in another OS thread."""
        if self.parked:
            return WAITING
        return RUNNING if self.own_greenlet.gr_frame is None else RUNNABLE

    def park_within(self, timeout: float | None) -> Any:
        """Park as a dhaga does. ``SignalDelivery`` calls the handlers of signals that arrive during the park."""
        try:
            self._let_others_run_until_woken(timeout)
            if self._signals is not None:
                self._signals.end_park()
        finally:
            _target = self._take_target()  # dropped on return, as in Scheduler._park
        return self._take_value()

    def _let_others_run_until_woken(self, timeout: float | None) -> None:
        """Switch away until a wake, the timeout, or an error of a signal handler."""
        scheduler = self.scheduler
        self.parked_since: float = scheduler.clock()
        entry = None if timeout is None else scheduler.timers.add(self.parked_since + timeout, self)
        try:
            # Each round delivers a signal; the park ends with a wake, or with a handler's error.
            while self._others_run():
                self._signals.interrupt_park()
                # If the timeout came while the handlers ran, it may have had no effect, because this waiter had left
                # its queue.
                if entry is not None and entry[2] is None:
                    self._expire()
        finally:
            if entry is not None:
                scheduler.timers.discard(entry)

    def _others_run(self) -> bool:
        """Switch away. An error of a handler that was set by the standard ``signal`` module ends the park.

        Returns: the same as ``_let_others_run``.
        """
        while True:
            try:
                return self._let_others_run()
            except BaseException as raised:
                ticket = self.parked
                if ticket and self.undo_park() and claim(ticket):
                    raise
                # A wake was faster: this waiter is in the run queue, or the scheduler has already switched to it.
                pending_errors_of(self).append(raised)
                if self not in getattr(self.wake_queue, "waiters", self.wake_queue):
                    return False

    def _let_others_run(self) -> bool:
        """Switch away. Returns: True if a signal, and not a wake, has switched back."""
        self.scheduler._let_others_run(self)
        return self._signals is not None and self._signals.take_resumed()
