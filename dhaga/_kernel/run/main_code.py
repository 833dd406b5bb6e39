"""The main code of an OS thread that has a scheduler. It parks as a dhaga does; signals' handlers are called there."""

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
    """The main code of an OS thread that has a scheduler: it parks and is woken as a dhaga, but was never spawned."""

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
        # The method of a run-queue entry; see _kernel/run/scheduler.py.
        self.switch: Callable[..., Any] = self.own_greenlet.switch
        self.ident: int = originals.get_ident()
        self.name: str = "main code"
        self.own_greenlet.name = self.name  # type: ignore[attr-defined]
        self._init_wait()

    def __repr__(self) -> str:
        return f"<Main code of {self.scheduler.name} {self.state}{f' {self.park_reason}' if self.parked else ''}>"

    @property
    def state(self) -> str:
        """RUNNABLE, RUNNING or WAITING; from another OS thread a snapshot."""
        if self.parked:
            return WAITING
        return RUNNING if self.own_greenlet.gr_frame is None else RUNNABLE

    def park_within(self, timeout: float | None) -> Any:
        """Park as a dhaga does; handlers of signals that come meanwhile are called here, by ``SignalDelivery``."""
        scheduler = self.scheduler
        self.parked_since: float = scheduler.clock()
        entry = None if timeout is None else scheduler.timers.add(self.parked_since + timeout, self)
        try:
            # Each round delivers a signal; the park ends with a wake, or with a handler's error.
            while self._others_run():
                self._signals.interrupt_park()
                # The timeout came while the handlers ran, and this waiter had stepped aside for them.
                if entry is not None and entry[2] is None:
                    self._expire()
        finally:
            if entry is not None:
                scheduler.timers.discard(entry)
        if self._signals is not None:
            self._signals.end_park()
        if self._error is not None:
            self._throw_error()
        value, self._value = self._value, None
        return value

    def _others_run(self) -> bool:
        """Yield to others. An error raised here by a handler of the standard ``signal`` ends the park, as in OSThread.

        Returns: as ``_let_others_run``.
        """
        while True:
            try:
                return self._let_others_run()
            except BaseException as raised:
                ticket = self.parked
                if ticket and self.undo_park() and claim(ticket):
                    raise
                # A wake was faster: this waiter is in the run queue, or has been switched back to.
                pending_errors_of(self).append(raised)
                if self not in getattr(self.wake_queue, "waiters", self.wake_queue):
                    return False

    def _let_others_run(self) -> bool:
        """Switch away. Returns: True if a signal, and no wake, has switched back."""
        self.scheduler._let_others_run(self)
        return self._signals is not None and self._signals.take_resumed()
