"""The waiter: the base of everything that can park. It has the API of wakers, and parks by a switch of the scheduler.

A wait has two halves. ``prepare_park(reason, target)`` marks the waiter as parked: from then on a wake counts. The
waiter then joins the queue in which a waker looks, checks once more whether it still must wait, and calls
``park_until_woken()``. That order makes wakes from other OS threads safe without a lock around it.
``parked`` is the ticket of the park: a list, new for each, that holds the waiter while it is parked. Taking the waiter
out is atomic, and decides which wake wins. The first wake takes the waiter, sets value or error, and appends the waiter
to its run queue; every later wake gets IndexError and is a no-op. A wake never switches.
A timeout or a cancel first undoes the park: ``wait_target._remove(waiter)`` takes the waiter off what it waits for. If
that fails, or the ticket is void by then, a waker has the waiter already: a timeout is too late then, and a cancel
stays pending until the next park. So nothing handed over is ever lost.
Three kinds share this face: a dhaga (``microthread.py``) and the main code of a thread (``main_code.py``), which are
switched, and a plain OS thread, which blocks for real (``thread_waiter.py``).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .. import hooks
from .cancellation import PendingErrors, ScopeCancel, pending_errors_of

if TYPE_CHECKING:
    from ..run.run_queues import Priority
    from ..run.scheduler import Scheduler
    from ..run.timers import Entry


class WaitTarget(Protocol):
    """The place of a waiter while it is parked. Undoing the park removes the waiter from there.

    With ``for_all`` true, any code may wake the waiter; without it only the code that has something to hand over.
    """

    def _remove(self, waiter: Any, /) -> object:
        """Remove the waiter. ValueError or False: too late, a waker has it already."""


logger = logging.getLogger("dhaga")


class TimedOut:
    """The result of a park whose own timeout came first. It is a value, because a signal handler may raise
    TimeoutError.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMED_OUT"


class NotCancellable:
    """Wait target that cannot be undone: timeouts are ignored, a cancel stays pending until the next park."""

    __slots__ = ()

    def _remove(self, waiter: object) -> bool:
        return False


class SleepTarget:
    """Wait target of a sleeper. It is in no queue to be removed from; the end of a sleep is a wake, not an error."""

    __slots__ = ()
    for_all = True

    def _remove(self, waiter: object) -> bool:
        return True


# Compared by identity.
TIMED_OUT = TimedOut()
NOT_CANCELLABLE = NotCancellable()
SLEEPING = SleepTarget()


def claim(ticket: list[Any]) -> bool:
    """Remove the waiter from its ticket. Returns: False if another wake, or the end of the wait, was faster."""
    try:
        del ticket[0]
    except IndexError:
        return False
    return True


class Waiter:
    """Base of everything that can park: the API of wakers, and parking by a switch."""

    # mypy takes a mixin's empty slots for those of its subclasses.
    if not TYPE_CHECKING:
        __slots__ = ()

    name: str
    ident: int
    scheduler: Scheduler
    # The queue that a wake appends to: the run queue, or the queue of another priority.
    wake_queue: Any
    own_priority: Priority
    # The ticket of its park: a list, new for each, that holds the waiter. Taking it out is the atomic claim
    # that decides which wake wins. Wait queues hold tickets, so that one whose waiter has left is void by itself.
    parked: list[Any]
    # Of this park, or of the last one.
    park_reason: str
    wait_target: WaitTarget | None
    # Until the wake: the item of a ``put``, or the queue of an uncancellable wait. Then: the wake's value.
    _value: Any
    _error: BaseException | None
    # When the last park began, by the scheduler's clock. A dhaga notes when the next poll was due then: reading the
    # clock at each park would cost 45 ns.
    parked_since: float
    # In a lock's queue: the queue's ``epoch`` when this waiter came. Earlier waiters are served first.
    arrival: int
    # Cancels and expired Timeouts that are still to be raised: an empty tuple until the first one, because a list in
    # each dhaga would take 56 bytes; see ``pending_errors_of``.
    pending_errors: PendingErrors

    def _init_wait(self) -> None:
        """Set the fields of a waiter that has never parked. A dhaga sets its own, written out."""
        self.parked = []
        self.park_reason = ""
        self.pending_errors = ()  # type: ignore[assignment]
        self.wait_target = None
        self._value = None
        self._error = None
        self.parked_since = 0.0

    @property
    def priority(self) -> Priority:
        """HIGH, NORMAL or LOW; see ``dhaga.priority``."""
        return self.own_priority

    def _assign_to(self, scheduler: Scheduler, priority: Priority) -> None:
        """Assign this waiter to a scheduler and priority; takes effect at the next wake."""
        self.wake_queue = scheduler._queue_of(priority)
        self.scheduler = scheduler
        self.own_priority = priority

    def prepare_park(self, reason: str, target: WaitTarget | None = None) -> None:
        """Mark this waiter as parked, without switching yet; a pending cancel is raised instead.

        Raises: Cancelled, Expired.
        """
        if self.pending_errors:
            self._throw_error(self.pending_errors.pop(0))
        # The ticket comes last: from here on a timeout or a cancel may ask for the target.
        self.wait_target = target
        self.park_reason = reason
        self.parked = [self]

    def prepare_uncancellable(self, reason: str, target: WaitTarget = NOT_CANCELLABLE) -> None:
        """Mark this waiter as parked as ``prepare_park`` does, but keep a pending cancel pending.

        The ``target`` must refuse timeouts and cancels while they must not end the park.
        """
        self.wait_target = target
        self.park_reason = reason
        self.parked = [self]

    def park_until_woken(self, timeout: float | None = None) -> Any:
        """Switch away until this waiter is woken.

        Parks: until woken; after ``timeout`` seconds the park is undone. From: the waiter itself, after
        ``prepare_park``. Returns: the waker's value. Raises: the waker's error, TimeoutError, Cancelled.
        """
        value = self.park_within(timeout)
        if value is TIMED_OUT:
            raise TimeoutError("timed out")
        return value

    def park_within(self, timeout: float | None) -> Any:
        """Park as ``park_until_woken`` does. Returns: the waker's value; TIMED_OUT after ``timeout`` seconds.

        So a TimeoutError never means this park's own timeout: a waker or a signal handler has raised it.
        """
        if timeout is None:
            return self.scheduler._park(self)
        scheduler = self.scheduler
        entry: Entry = scheduler.timers.add(scheduler.clock() + timeout, self)
        try:
            return scheduler._park(self)
        finally:
            scheduler.timers.discard(entry)

    def _throw_error(self, error: BaseException | None = None) -> NoReturn:
        """Raise a pending error, or the one this waiter was woken with."""
        if error is None:
            error, self._error = self._error, None
            assert error is not None
        on_park_error = hooks.on_park_error
        if on_park_error is not None:
            on_park_error(self, error)
        try:
            raise error
        finally:
            # Its traceback holds this frame: that would be a cycle.
            del error

    def wake(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Make a waiter in ``dhaga.park``, or in a sleep, runnable: its park returns ``value`` or raises ``error``.

        Parks: never. From: a dhaga, a callback, any OS thread. Returns: False if it is not parked, or another wake won.
        Raises: RuntimeError if it waits for something that has wakers of its own, such as a lock.
        """
        # The ticket first: if the waiter parks anew meanwhile, in another OS thread, this ticket is void.
        ticket = self.parked
        target = self.wait_target
        if target is not None and ticket and not getattr(target, "for_all", False):
            raise RuntimeError(
                f"{self!r} cannot be released by wake(), as it waits for an object that has something to hand over:\n"
                "to end the wait, cancel(); to wait for a wake(), dhaga.park()"
            )
        return self.wake_from(ticket, value, error)

    def wake_from(self, ticket: list[Any], value: Any = None, error: BaseException | None = None) -> bool:
        """Wake this waiter from one particular park. Returns: False if another wake was faster.

        A waker in another OS thread may have parked the waiter anew meanwhile, as ``Condition.notify`` does.
        """
        if not claim(ticket):
            return False
        self.deliver_wake(value, error)
        return True

    def wake_parked(self, value: Any = None, error: BaseException | None = None) -> bool:
        """Wake this waiter. From: the code it waits for, which has taken it off its queue; else as ``wake``."""
        try:
            # 40 % cheaper than pop(), and one bytecode: of two threads that wake at once, one gets IndexError.
            del self.parked[0]
        except IndexError:
            return False
        self.deliver_wake(value, error)
        return True

    def deliver_wake(self, value: Any = None, error: BaseException | None = None) -> None:
        """Make this waiter runnable. From: the waker that has taken it out of its ticket."""
        # Read once: another OS thread may remove the observer.
        on_wake = hooks.on_wake
        if on_wake is not None:
            on_wake(self)
        self._value = value
        if error is not None:
            self._error = error
        # Value and error are set before the append: from here on the scheduler may switch to this waiter in its own
        # thread.
        self.wake_queue.append(self)
        scheduler = self.scheduler
        # The scheduler sets this flag and then looks at its queue again, so that one of the two sides sees the other.
        if scheduler.asleep:
            scheduler.wake_loop()

    @property
    def wait_timed_out(self) -> bool:
        """Whether the last park has ended by its timeout. Read before the waiter runs again."""
        return self._value is TIMED_OUT

    def _expire(self) -> None:
        """End the park by its own timeout; no-op if a waker was faster."""
        self._end_park(TIMED_OUT)

    def time_out_park(self) -> None:
        """Raise TimeoutError at a park that has no timeout of its own; no-op if a waker was faster."""
        self._end_park(None, TimeoutError("timed out"))

    def _end_park(self, value: object, error: BaseException | None = None) -> None:
        """Undo the park and wake the waiter; a sleeper's sleep is over."""
        if self.wait_target is SLEEPING:
            self.wake_parked()
        elif (ticket := self.parked) and self.undo_park():
            self.wake_from(ticket, value, error)

    def cancel_with(self, error: BaseException) -> None:
        """Raise ``error`` at this park if that can still be undone, else at the next one; a shield holds it off."""
        pending = self.pending_errors
        shielded = isinstance(pending, PendingErrors) and pending.holds_off(error)
        ticket = self.parked
        if ticket and not shielded and self.undo_park() and self.wake_from(ticket, error=error):
            return
        # A wake was faster, there is nothing to undo, or a shield holds the error off: it stays pending.
        pending_errors_of(self).append(error)

    def cancel_by_scope(self, scope_cancel: ScopeCancel) -> None:
        """Raise a scope's cancel at this park, if that can still be undone, and at each further one."""
        pending = pending_errors_of(self)
        pending.append(scope_cancel)
        ticket = self.parked
        if ticket and not pending.holds_off(scope_cancel) and self.undo_park():
            self.wake_from(ticket, error=scope_cancel.error())

    def park_on(self, queue: Any, arrival: int | None = None) -> None:
        """Join a queue with a new ticket that neither a timeout nor a cancel voids: the wake is certain to come.

        With an ``arrival`` at a lock, before all later waiters; else at the end. From: the waiter itself, or the waker
        that has taken it out of its ticket, as ``Condition.notify`` does.
        """
        # Main code leaves this queue for the handlers of signals.
        self._value = queue
        self.prepare_uncancellable(queue.reason)
        if arrival is None:
            self.arrival = queue.epoch
            queue.append(self.parked)
        else:
            self.arrival = arrival
            queue.insert_by_arrival(self.parked, arrival)

    def undo_park(self) -> bool:
        """Undo the park. Returns: False if a waker came first."""
        if self.wait_target is None:
            return True
        try:
            return self.wait_target._remove(self) is not False
        except ValueError:
            return False
        except Exception:
            # A user's undo failed. The waiter is woken, because it would hang otherwise.
            logger.exception("the undo of %r failed; it is woken nevertheless", self)
            return True

    @property
    def waits_on(self) -> object:
        """The object this waiter is parked on, as far as its target reports one."""
        if not self.parked or self.wait_target is SLEEPING or self.wait_target is NOT_CANCELLABLE:
            return None
        return getattr(self.wait_target, "owner", self.wait_target)
